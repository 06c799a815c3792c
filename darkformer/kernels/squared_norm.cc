// The sum of squares in double lanes, block by block.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/squared_norm.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/squared_norm.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

double block_squares(const float* x, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  const auto add = [&](V sum, std::size_t i) HWY_ATTR {
    const V v = hn::PromoteTo(d, hn::LoadU(narrow, x + i));
    return hn::MulAdd(v, v, sum);
  };
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = add(sum0, i);
    sum1 = add(sum1, i + lanes);
    sum2 = add(sum2, i + 2 * lanes);
    sum3 = add(sum3, i + 3 * lanes);
  }
  const V total = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  double sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  return sum;
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(block_squares);

constexpr std::size_t kBlock = std::size_t{1} << 15U;  // 128 KiB: some microseconds of work
}  // namespace

double squared_norm(const float* x, std::size_t count) {
  std::vector<double> blocks((count + kBlock - 1) / kBlock);
  parallel_for(blocks.size(), [&](std::size_t block) {
    const std::size_t start = block * kBlock;
    blocks[block] = HWY_DYNAMIC_DISPATCH(block_squares)(x + start, std::min(kBlock, count - start));
  });
  double sum = 0.0;
  for (const double block : blocks) {
    sum += block;
  }
  return sum;
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
