// Softmax features: the sums of both halves, vectorised over the logits of a row; products with W
// for all rows of a head at once.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/softmax_features.h"

#include <algorithm>
#include <cmath>

#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/softmax_features.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {  // equal names in other files are other things

// sum_j 2^(log2(e) sign z_j - top)
HWY_INLINE float sum_of_powers(const float* z, std::size_t R, float sign, float top) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, sign * kLog2E), shift = hn::Set(d, top);
  auto sum = hn::Zero(d);
  std::size_t j = 0;
  for (; j + hn::Lanes(d) <= R; j += hn::Lanes(d)) {
    sum = hn::Add(sum, exp2_flushed(d, hn::MulSub(hn::LoadU(d, z + j), scale, shift)));
  }
  float total = sum_of_lanes(d, sum);
  for (; j < R; ++j) {
    total += std::exp2(sign * kLog2E * z[j] - top);
  }
  return total;
}

// halves <- (e+, e-) of the logits z (R)
void softmax_halves(const float* z, std::size_t R, float* halves) {
  const auto [low, high] = std::minmax_element(z, z + R);
  const float top[] = {kLog2E * *high, -kLog2E * *low};
  for (const int half : {0, 1}) {
    const float sum = sum_of_powers(z, R, half == 0 ? 1.0F : -1.0F, top[half]);
    halves[half] = -top[half] - std::log2(sum);
  }
}

// z_j <- the gradient of logit j through both halves: log2(e) (p-_j d_e- - p+_j d_e+) with
// p+ = 2^(log2(e) z + e+), p- = 2^(-log2(e) z + e-).
void halves_backward(const float* halves, const float* d_halves, std::size_t R, float* z) {
  const hn::ScalableTag<float> d;
  std::size_t j = 0;
  for (; j + hn::Lanes(d) <= R; j += hn::Lanes(d)) {
    const auto logit = hn::Mul(hn::LoadU(d, z + j), hn::Set(d, kLog2E));
    const auto up = exp2_flushed(d, hn::Add(hn::Set(d, halves[0]), logit));
    const auto down = exp2_flushed(d, hn::Sub(hn::Set(d, halves[1]), logit));
    const auto gradient = hn::NegMulAdd(up, hn::Set(d, kLog2E * d_halves[0]),
                                        hn::Mul(down, hn::Set(d, kLog2E * d_halves[1])));
    hn::StoreU(gradient, d, z + j);
  }
  for (; j < R; ++j) {
    const float logit = kLog2E * z[j];
    z[j] = kLog2E * (std::exp2(halves[1] - logit) * d_halves[1] -
                     std::exp2(halves[0] + logit) * d_halves[0]);
  }
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(softmax_halves);
HWY_EXPORT(halves_backward);

// logits (rows,R) <- x W^T of head i of one batch; x (B,sources,rows,D) contiguous.
void head_logits(const DarkAttention& s,
                 const SoftmaxSide& side,
                 const std::vector<float>& x,
                 std::size_t bi,
                 float* logits) {
  const std::size_t b = bi / side.heads, i = bi % side.heads;
  gemm({.m = side.rows,
        .n = s.R,
        .k = s.D,
        .a = &x[(b * side.sources + i * side.sources / side.heads) * side.rows * s.D],
        .lda = s.D,
        .b = side.map + i * s.N / side.heads * s.R * s.D,
        .ldb = s.D,
        .trans_b = true,
        .c = logits,
        .ldc = s.R});
}

std::vector<float> contiguous_rows(const DarkAttention& s, const SoftmaxSide& side) {
  std::vector<float> x(s.B * side.sources * side.rows * s.D);
  copy_centred(side.x, s.B, side.sources, side.rows, s.D, nullptr, 1, x.data());
  return x;
}

// draws (N,F,D+2) <- [log2(e) W, 1, 0], [-log2(e) W, 0, 1]
void fill_draws(const DarkAttention& s, const float* map, std::vector<float>& draws) {
  const std::size_t width = softmax_row(s);
  draws.assign(s.N * s.F * width, 0.0F);
  for (std::size_t f = 0; f < s.N * s.F; ++f) {
    const std::size_t half = f % s.F / s.R;
    const float* from = map + (f / s.F * s.R + f % s.R) * s.D;
    std::transform(from, from + s.D, &draws[f * width],
                   [&](float w) { return half == 0 ? kLog2E * w : -kLog2E * w; });
    draws[f * width + s.D + half] = 1.0F;
  }
}

// d_map (N,R,D) <- log2(e) (d_draws+ - d_draws-) + sum over batches and heads of d_logits^T x
void map_backward(const DarkAttention& s,
                  const SoftmaxSide& side,
                  const std::vector<float>& x,
                  const std::vector<float>& d_logits,
                  const std::vector<float>& d_draws,
                  float* d_map) {
  const std::size_t width = softmax_row(s), shared = side.heads / s.N;
  for_each_product(s.N, [&](std::size_t n) {
    for (std::size_t r = 0; r < s.R; ++r) {
      const float* up = &d_draws[(n * s.F + r) * width];
      std::transform(up, up + s.D, up + s.R * width, d_map + (n * s.R + r) * s.D,
                     [](float a, float b) { return kLog2E * (a - b); });
    }
    for (std::size_t b = 0; b < s.B; ++b) {
      for (std::size_t i = n * shared; i < (n + 1) * shared; ++i) {
        gemm({.m = s.R,
              .n = s.D,
              .k = side.rows,
              .a = &d_logits[(b * side.heads + i) * side.rows * s.R],
              .lda = s.R,
              .trans_a = true,
              .b = &x[(b * side.sources + i * side.sources / side.heads) * side.rows * s.D],
              .ldb = s.D,
              .c = d_map + n * s.R * s.D,
              .ldc = s.D,
              .beta = 1.0F});
      }
    }
  });
}

}  // namespace

SoftmaxSide softmax_queries(const DarkAttention& s, const DarkInputs& in) {
  return {in.q, in.parameters.factor, s.H, s.H, s.T};
}

SoftmaxSide softmax_keys(const DarkAttention& s, const DarkInputs& in) {
  return {in.k, in.parameters.key_factor, s.G, s.N, s.S};
}

void softmax_features(const DarkAttention& s,
                      const SoftmaxSide& side,
                      std::vector<float>& rows,
                      std::vector<float>& draws) {
  const std::size_t width = softmax_row(s);
  fill_draws(s, side.map, draws);
  rows.resize(s.B * side.heads * side.rows * width);
  const std::vector<float> x = contiguous_rows(s, side);
  for_each_product(s.B * side.heads, [&](std::size_t bi) {
    std::vector<float> logits(side.rows * s.R);
    head_logits(s, side, x, bi, logits.data());
    const std::size_t source =
        bi / side.heads * side.sources + bi % side.heads * side.sources / side.heads;
    for (std::size_t t = 0; t < side.rows; ++t) {
      const float* from = &x[(source * side.rows + t) * s.D];
      float* to = std::copy(from, from + s.D, &rows[(bi * side.rows + t) * width]);
      HWY_DYNAMIC_DISPATCH(softmax_halves)(&logits[t * s.R], s.R, to);
    }
  });
}

void softmax_features_backward(const DarkAttention& s,
                               const SoftmaxSide& side,
                               const std::vector<float>& rows,
                               const std::vector<float>& d_rows,
                               const std::vector<float>& d_draws,
                               float* dx,
                               float* d_map) {
  const std::size_t width = softmax_row(s);
  const std::vector<float> x = contiguous_rows(s, side);
  std::vector<float> d_logits(s.B * side.heads * side.rows * s.R);
  for_each_product(s.B * side.heads, [&](std::size_t bi) {
    float* logits = &d_logits[bi * side.rows * s.R];
    head_logits(s, side, x, bi, logits);
    for (std::size_t t = 0; t < side.rows; ++t) {
      const std::size_t row = bi * side.rows + t;
      const float* gradient = &d_rows[row * width];
      HWY_DYNAMIC_DISPATCH(halves_backward)
      (&rows[row * width + s.D], gradient + s.D, s.R, logits + t * s.R);
      std::copy(gradient, gradient + s.D, dx + row * s.D);
    }
    // dx <- dx + d_logits W
    gemm({.m = side.rows,
          .n = s.D,
          .k = s.R,
          .a = logits,
          .lda = s.R,
          .b = side.map + bi % side.heads * s.N / side.heads * s.R * s.D,
          .ldb = s.D,
          .c = dx + bi * side.rows * s.D,
          .ldc = s.D,
          .beta = 1.0F});
  });
  if (!d_draws.empty()) {
    map_backward(s, side, x, d_logits, d_draws, d_map);
  }
}

void softmax_logs(const float* logits, std::size_t R, float* logs) {
  float halves[2];
  HWY_DYNAMIC_DISPATCH(softmax_halves)(logits, R, halves);
  for (std::size_t j = 0; j < R; ++j) {
    logs[j] = kLog2E * logits[j] + halves[0];
    logs[R + j] = -kLog2E * logits[j] + halves[1];
  }
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
