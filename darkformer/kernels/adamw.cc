// The AdamW update, vectorised: one pass over the four arrays.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/adamw.h"

#include <cassert>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/adamw.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// What one value needs of the settings, rounded once from double.
struct AdamwFactors {
  float keep_mean, take_mean, keep_square, take_square;
  float shrink, step, root_correction, epsilon;
};

AdamwFactors factors_of(const AdamwSettings& s) {
  const auto t = static_cast<double>(s.step);
  const double mean_correction = 1.0 - std::pow(s.beta1, t);
  const double square_correction = 1.0 - std::pow(s.beta2, t);
  return {
      .keep_mean = static_cast<float>(s.beta1),
      .take_mean = static_cast<float>((1.0 - s.beta1) * s.gradient_scale),
      .keep_square = static_cast<float>(s.beta2),
      // A root, so that a tiny gradient_scale is squared after the gradient came in.
      .take_square = static_cast<float>(std::sqrt(1.0 - s.beta2) * s.gradient_scale),
      .shrink = static_cast<float>(1.0 - s.learning_rate * s.weight_decay),
      .step = static_cast<float>(s.learning_rate / mean_correction),
      .root_correction = static_cast<float>(1.0 / std::sqrt(square_correction)),
      .epsilon = static_cast<float>(s.epsilon),
  };
}

void adamw_range(const AdamwSettings& settings,
                 const AdamwArrays& arrays,
                 std::size_t begin,
                 std::size_t end) {
  const AdamwFactors f = factors_of(settings);
  float* HWY_RESTRICT p_at = arrays.p + begin;
  const float* HWY_RESTRICT g_at = arrays.g + begin;
  float* HWY_RESTRICT m_at = arrays.m + begin;
  float* HWY_RESTRICT v_at = arrays.v + begin;
  for_parts(end - begin, [=](auto d, std::size_t i, std::size_t count) HWY_ATTR {
    const auto g = load_part(d, g_at + i, count);
    // m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
    const auto m = hn::MulAdd(load_part(d, m_at + i, count), hn::Set(d, f.keep_mean),
                              hn::Mul(g, hn::Set(d, f.take_mean)));
    const auto scaled = hn::Mul(g, hn::Set(d, f.take_square));  // its square is (1 - beta2) g^2
    const auto v = hn::MulAdd(load_part(d, v_at + i, count), hn::Set(d, f.keep_square),
                              hn::Mul(scaled, scaled));
    // p <- shrink p - step m / (sqrt(v) correction + epsilon)
    const auto root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_correction), hn::Set(d, f.epsilon));
    const auto update = hn::Div(hn::Mul(m, hn::Set(d, f.step)), root);
    const auto p = hn::MulSub(load_part(d, p_at + i, count), hn::Set(d, f.shrink), update);
    store_part(m, d, m_at + i, count);
    store_part(v, d, v_at + i, count);
    store_part(p, d, p_at + i, count);
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(adamw_range);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 8192;
}  // namespace

void adamw_step(const AdamwSettings& settings, const AdamwArrays& arrays) {
  assert(settings.step >= 1);
  parallel_ranges(arrays.count, kValuesPerThread, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_range)(settings, arrays, begin, end);
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
