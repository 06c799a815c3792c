// Sampling weights in vectors: the largest logit, then block by block exponentials and their sum.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/sampling_weights.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/sampling_weights.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

float largest(const float* x, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto top = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    top = hn::Max(top, hn::LoadU(d, x + i));
  }
  float result = max_of_lanes(d, top);
  for (; i < count; ++i) {
    result = std::max(result, x[i]);
  }
  return result;
}

double sum_of(const float* x, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(narrow, x + i)));
  }
  double result = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) {
    result += double{x[i]};
  }
  return result;
}

void weights(const float* x, std::size_t count, float temperature, float* w, double* sums) {
  const float top = largest(x, count), inverse = 1.0F / temperature;
  for (std::size_t begin = 0; begin < count; begin += kWeightBlock) {
    const std::size_t size = std::min(kWeightBlock, count - begin);
    for_parts(size, [&](auto d, std::size_t i, std::size_t part) HWY_ATTR {
      const auto shifted = hn::Sub(load_part(d, x + begin + i, part), hn::Set(d, top));
      store_part(exp(d, hn::Mul(shifted, hn::Set(d, inverse))), d, w + begin + i, part);
    });
    sums[begin / kWeightBlock] = sum_of(w + begin, size);
  }
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(weights);
}  // namespace

void sampling_weights(
    const float* x, std::size_t count, float temperature, float* w, double* sums) {
  HWY_DYNAMIC_DISPATCH(weights)(x, count, temperature, w, sums);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
