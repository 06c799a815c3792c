// Loops over a row in vectors with a partial one at the end, for one Highway target; included
// inside foreach_target, never alone.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_ROW_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_ROW_LOOP_INL_H_
#undef DARKFORMER_KERNELS_ROW_LOOP_INL_H_
#else
#define DARKFORMER_KERNELS_ROW_LOOP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

#include "darkformer/kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The `count` values at `from`, then zeros. A whole vector (the usual case) is one load.
template <class D>
HWY_INLINE hn::Vec<D> load_part(D d, const float* from, std::size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) {
    return hn::LoadU(d, from);
  }
  HWY_ALIGN float values[hn::MaxLanes(d)] = {};
  std::memcpy(values, from, count * sizeof(float));
  return hn::Load(d, values);
}

// The first `count` lanes to `to`.
template <class D>
HWY_INLINE void store_part(hn::Vec<D> v, D d, float* to, std::size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) {
    hn::StoreU(v, d, to);
    return;
  }
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(v, d, values);
  std::memcpy(to, values, count * sizeof(float));
}

// body(d, i, count) for each vector of [0, size): count = Lanes(d), less in the last call.
// `count` is a constant in the main loop, so that load_part and store_part become plain ones.
template <class Body>
HWY_INLINE void for_parts(std::size_t size, const Body& body) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    body(d, i, lanes);
  }
  if (i < size) {
    body(d, i, size - i);
  }
}

// The sum of body(d, i, count) over [0, size), where a partial vector must hold zeros beyond count.
// Four partial sums hide the latency and quarter the rounding error.
template <class Body>
HWY_INLINE float sum_over(std::size_t size, const Body& body) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    sum0 = hn::Add(sum0, body(d, i, lanes));
    sum1 = hn::Add(sum1, body(d, i + lanes, lanes));
    sum2 = hn::Add(sum2, body(d, i + 2 * lanes, lanes));
    sum3 = hn::Add(sum3, body(d, i + 3 * lanes, lanes));
  }
  for (; i < size; i += lanes) {
    sum0 = hn::Add(sum0, body(d, i, size - i < lanes ? size - i : lanes));
  }
  return sum_of_lanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_ROW_LOOP_INL_H_
