// Vectorised exp, exp2 and tanh for one Highway target; included inside foreach_target, never
// alone.
// SPDX-License-Identifier: Apache-2.0
//
// Error bounds, tested by simd_math_test: exp2_fraction 1.2e-7 relative; exp 2e-7 relative for
// results that are normal floats; tanh 3e-7 relative.

// Per-target include guard, as in every -inl.h of Highway.
#if defined(DARKFORMER_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_SIMD_MATH_INL_H_
#undef DARKFORMER_KERNELS_SIMD_MATH_INL_H_
#else
#define DARKFORMER_KERNELS_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^f for |f| <= 1/2: a minimax polynomial of degree 6, relative error 2e-9 before rounding (1.2e-7
// after it, without FMA).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_fraction(D d, V f) {
  V p = hn::Set(d, 1.5345810970757157e-4F);
  p = hn::MulAdd(p, f, hn::Set(d, 1.3399930903688073e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 9.618489071726799e-3F));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550328642129898e-2F));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022646248340607e-1F));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931471824645996e-1F));
  return hn::MulAdd(p, f, hn::Set(d, 1.0F));
}

// 2^n for integers -127 < n < 128, by writing the exponent.
template <class D, class VI>
HWY_INLINE hn::Vec<D> exp2_integer(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// 2^x for x < 127.5; 0 below -126.5 (no subnormals). NaN stays NaN where max keeps its second
// operand, as on x86. Half the cost of exp, for arguments that are already in base 2 and at most 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_flushed(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V y = hn::Max(hn::Set(d, -127.0F), x);
  const V n = hn::Round(y);
  const V p = exp2_fraction(d, hn::Sub(y, n));
  return hn::Mul(p, exp2_integer(d, hn::ConvertTo(di, n)));  // n = -127 writes the exponent of 0
}

// e^x; 0 below -104, infinity above 88.73, NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  // The clamp keeps the two half-exponents normal; what it cuts is 0 or infinity anyway.
  const V y = hn::Min(hn::Max(x, hn::Set(d, -110.0F)), hn::Set(d, 95.0F));
  const V n = hn::Round(hn::Mul(y, hn::Set(d, 1.44269504F)));
  // r <- x - n ln 2, with ln 2 in two parts so that n times the first is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), y);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  const V p = exp2_fraction(d, hn::Mul(r, hn::Set(d, 1.44269504F)));
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const V scaled =
      hn::Mul(hn::Mul(p, exp2_integer(d, half)), exp2_integer(d, hn::Sub(whole, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}

// tanh x; NaN for NaN. Small |x|: x + x^3 P(x^2), relative error 7e-9 before rounding; else from
// exp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V z = hn::Mul(x, x);
  V p = hn::Set(d, -5.7070693e-3F);
  p = hn::MulAdd(p, z, hn::Set(d, 2.0630583e-2F));
  p = hn::MulAdd(p, z, hn::Set(d, -5.3731874e-2F));
  p = hn::MulAdd(p, z, hn::Set(d, 1.3331236e-1F));
  p = hn::MulAdd(p, z, hn::Set(d, -3.3333266e-1F));
  const V small = hn::MulAdd(hn::Mul(p, z), x, x);
  // tanh |x| = 1 - 2 / (e^2|x| + 1)
  const V size = hn::Abs(x);
  const V e = exp(d, hn::Add(size, size));
  const V one = hn::Set(d, 1.0F);
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625F)), small, hn::CopySign(large, x));
}

// The sum of all lanes, in an order that depends on the number of lanes only.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float sum_of_lanes(D d, V v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE float max_of_lanes(D d, V v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_SIMD_MATH_INL_H_
