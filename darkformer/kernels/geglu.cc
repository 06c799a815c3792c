// The gated unit, vectorised: one exp and one division a value.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/geglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/geglu.cc"
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
// |2z| > 600 here: the sigmoid is 0 or 1 in float32, and g^2 cannot overflow.
constexpr float kFlat = 20.0F;

template <class V>
struct Gelu {
  V s, rest, slope;  // sigmoid(2z), 1 - sigmoid(2z), 2z'
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE Gelu<V> gelu_parts(D d, V gate) {
  const V one = hn::Set(d, 1.0F), cubic = hn::Set(d, kCubic), root = hn::Set(d, kTwoRoot);
  const V g = hn::Min(hn::Max(gate, hn::Set(d, -kFlat)), hn::Set(d, kFlat));
  const V square = hn::Mul(g, g);
  const V twice_z = hn::Mul(hn::Mul(root, g), hn::MulAdd(cubic, square, one));
  // e <- exp(-|2z|) <= 1, so both sigmoids are exact to rounding.
  const V e = exp(d, hn::Neg(hn::Abs(twice_z)));
  const V near_one = hn::Div(one, hn::Add(one, e));
  const V near_zero = hn::Mul(e, near_one);
  const auto negative = hn::Lt(twice_z, hn::Zero(d));
  const V slope = hn::Mul(root, hn::MulAdd(hn::Mul(hn::Set(d, 3.0F), cubic), square, one));
  return {hn::IfThenElse(negative, near_zero, near_one),
          hn::IfThenElse(negative, near_one, near_zero), slope};
}

void geglu_range(const float* gate, const float* up, float* y, std::size_t count) {
  for_parts(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto g = load_part(d, gate + i, part);
    const auto gelu = hn::Mul(g, gelu_parts(d, g).s);
    store_part(hn::Mul(gelu, load_part(d, up + i, part)), d, y + i, part);
  });
}

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
    const auto parts = gelu_parts(d, g);
    const auto gelu = hn::Mul(g, parts.s);
    // dgate <- dy up (s + g s (1 - s) 2z');  dup <- dy g s
    const auto derivative = hn::MulAdd(hn::Mul(gelu, parts.rest), parts.slope, parts.s);
    store_part(hn::Mul(hn::Mul(gradient, u), derivative), d, dgate + i, part);
    store_part(hn::Mul(gradient, gelu), d, dup + i, part);
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(geglu_range);
HWY_EXPORT(backward_range);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 4096;
}  // namespace

void geglu(std::size_t count, const float* gate, const float* up, float* y) {
  parallel_ranges(count, kValuesPerThread, [=](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(geglu_range)(gate + begin, up + begin, y + begin, end - begin);
  });
}

void geglu_backward(std::size_t count,
                    const float* gate,
                    const float* up,
                    const float* dy,
                    float* dgate,
                    float* dup) {
  parallel_ranges(count, kValuesPerThread, [=](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(backward_range)
    (gate + begin, up + begin, dy + begin, dgate + begin, dup + begin, end - begin);
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
