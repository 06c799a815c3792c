// The gated unit, vectorised: one exp and one division a value.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gated_unit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/gated_unit.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

constexpr float kTwoRoot = 1.5957691216F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F;
// |a| > 600 here: the sigmoid is 0 or 1 in float32, and g^2 cannot overflow.
constexpr float kFlat = 20.0F;

// a and a' of act(g) = g sigmoid(a).
template <class V>
struct Argument {
  V value, slope;
};

struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE static Argument<V> argument(D d, V gate) {
    const V one = hn::Set(d, 1.0F), cubic = hn::Set(d, kCubic), root = hn::Set(d, kTwoRoot);
    const V g = hn::Min(hn::Max(gate, hn::Set(d, -kFlat)), hn::Set(d, kFlat));
    const V square = hn::Mul(g, g);
    return {hn::Mul(hn::Mul(root, g), hn::MulAdd(cubic, square, one)),
            hn::Mul(root, hn::MulAdd(hn::Mul(hn::Set(d, 3.0F), cubic), square, one))};
  }
};

struct Silu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE static Argument<V> argument(D d, V gate) {
    return {gate, hn::Set(d, 1.0F)};
  }
};

template <class V>
struct Sigmoid {
  V s, rest, slope;  // sigmoid(a), 1 - sigmoid(a), a'
};

template <class Act, class D, class V = hn::Vec<D>>
HWY_INLINE Sigmoid<V> sigmoid_parts(D d, V gate) {
  const V one = hn::Set(d, 1.0F);
  const Argument<V> a = Act::argument(d, gate);
  // e <- exp(-|a|) <= 1, so both sigmoids are exact to rounding.
  const V e = exp(d, hn::Neg(hn::Abs(a.value)));
  const V near_one = hn::Div(one, hn::Add(one, e));
  const V near_zero = hn::Mul(e, near_one);
  const auto negative = hn::Lt(a.value, hn::Zero(d));
  return {hn::IfThenElse(negative, near_zero, near_one),
          hn::IfThenElse(negative, near_one, near_zero), a.slope};
}

template <class Act>
void forward_range(const float* gate, const float* up, float* y, std::size_t count) {
  for_parts(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto g = load_part(d, gate + i, part);
    const auto active = hn::Mul(g, sigmoid_parts<Act>(d, g).s);
    store_part(hn::Mul(active, load_part(d, up + i, part)), d, y + i, part);
  });
}

template <class Act>
void backward_range(const float* gate,
                    const float* up,
                    const float* dy,
                    float* dgate,
                    float* dup,
                    std::size_t count) {
  for_parts(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto g = load_part(d, gate + i, part);
    const auto u = load_part(d, up + i, part);
    const auto gradient = load_part(d, dy + i, part);
    const auto parts = sigmoid_parts<Act>(d, g);
    const auto active = hn::Mul(g, parts.s);
    // dgate <- dy up (s + g s (1 - s) a');  dup <- dy g s
    const auto derivative = hn::MulAdd(hn::Mul(active, parts.rest), parts.slope, parts.s);
    store_part(hn::Mul(hn::Mul(gradient, u), derivative), d, dgate + i, part);
    store_part(hn::Mul(gradient, active), d, dup + i, part);
  });
}

void unit_range(
    Activation activation, const float* gate, const float* up, float* y, std::size_t count) {
  activation == Activation::kSilu ? forward_range<Silu>(gate, up, y, count)
                                  : forward_range<GeluTanh>(gate, up, y, count);
}

void unit_backward_range(Activation activation,
                         const float* gate,
                         const float* up,
                         const float* dy,
                         float* dgate,
                         float* dup,
                         std::size_t count) {
  activation == Activation::kSilu ? backward_range<Silu>(gate, up, dy, dgate, dup, count)
                                  : backward_range<GeluTanh>(gate, up, dy, dgate, dup, count);
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(unit_range);
HWY_EXPORT(unit_backward_range);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 4096;
}  // namespace

void gated_unit(
    Activation activation, std::size_t count, const float* gate, const float* up, float* y) {
  parallel_ranges(count, kValuesPerThread, [=](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(unit_range)
    (activation, gate + begin, up + begin, y + begin, end - begin);
  });
}

void gated_unit_backward(Activation activation,
                         std::size_t count,
                         const float* gate,
                         const float* up,
                         const float* dy,
                         float* dgate,
                         float* dup) {
  parallel_ranges(count, kValuesPerThread, [=](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(unit_backward_range)
    (activation, gate + begin, up + begin, dy + begin, dgate + begin, dup + begin, end - begin);
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
