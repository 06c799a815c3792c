// Sums whose last bit is rounded at random, without bias, for one Highway target: what a decode
// step adds to its state.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_DITHERED_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_DITHERED_SUM_INL_H_
#undef DARKFORMER_KERNELS_DITHERED_SUM_INL_H_
#else
#define DARKFORMER_KERNELS_DITHERED_SUM_INL_H_
#endif

#include "darkformer/kernels/feature_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {

// A uniform in [-1/2, 1/2) for each lane: a hash of (token, element), so that a step gives the same
// bits after any save and load.
template <class DU>
HWY_INLINE hn::Vec<hn::RebindToFloat<DU>> dither(DU du,
                                                 std::uint32_t token,
                                                 std::uint32_t element) {
  const hn::RebindToFloat<DU> d;
  // Iota of a constant is one; of a variable it is written to memory lane by lane.
  auto h = hn::Add(hn::Iota(du, 0), hn::Set(du, element + token * 0x9E3779B1U));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, 0x7FEB352DU));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<15>(h)), hn::Set(du, 0x846CA68BU));
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  const auto one_to_two = hn::Or(hn::ShiftRight<9>(h), hn::Set(du, 0x3F800000U));
  return hn::Sub(hn::BitCast(d, one_to_two), hn::Set(d, 1.5F));
}

// a + b with the last bit rounded at random, without bias: plain rounding always errs to the same
// side for equal terms, by 1 % after a million of them. err is the exact error of the float sum; s
// + (err + u ulp) rounds up with probability err / ulp.
template <class D, class V>
HWY_INLINE V add_dithered(D d, V a, V b, V uniform) {
  const hn::RebindToUnsigned<D> du;
  const V s = hn::Add(a, b);
  const V part = hn::Sub(s, a);
  const V err = hn::Add(hn::Sub(a, hn::Sub(s, part)), hn::Sub(b, part));
  const V exponent = hn::BitCast(d, hn::And(hn::BitCast(du, s), hn::Set(du, 0x7F800000U)));
  const V ulp = hn::Mul(exponent, hn::Set(d, 0x1p-23F));
  return hn::Add(s, hn::MulAdd(uniform, ulp, err));
}

// y <- y + scale x, dithered. `element` numbers the first value of y within the state.
HWY_INLINE void add_scaled_dithered(float scale,
                                    const float* x,
                                    std::size_t count,
                                    std::uint32_t token,
                                    std::uint32_t element,
                                    float* y) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto term = hn::Mul(hn::Set(d, scale), hn::LoadU(d, x + i));
    const auto noise = dither(du, token, element + static_cast<std::uint32_t>(i));
    hn::StoreU(add_dithered(d, hn::LoadU(d, y + i), term, noise), d, y + i);
  }
  const hn::CappedTag<float, 1> one;
  const hn::RebindToUnsigned<decltype(one)> one_u;
  for (; i < count; ++i) {
    const auto noise = dither(one_u, token, element + static_cast<std::uint32_t>(i));
    y[i] = hn::GetLane(add_dithered(one, hn::Set(one, y[i]), hn::Set(one, scale * x[i]), noise));
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_DITHERED_SUM_INL_H_
