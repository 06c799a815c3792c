// Small products in tiles of registers; B is copied where it is transposed or its rows end inside a
// vector.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/small_gemm.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/small_gemm.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// op(B) with rows of whole vectors: B itself where it is so, else a copy with zeros at the ends.
TileRight whole_rows(const Gemm& g, std::size_t width, float* copy) {
  if (!g.trans_b && g.n == width) {
    return {g.b, g.ldb};
  }
  if (g.trans_b) {
    transpose(g.n, g.k, g.b, g.ldb, copy, width);
  }
  for (std::size_t p = 0; p < g.k; ++p) {
    float* row = copy + p * width;
    if (!g.trans_b) {
      std::copy_n(g.b + p * g.ldb, g.n, row);
    }
    std::fill(row + g.n, row + width, 0.0F);
  }
  return {copy, width};
}

// C <- alpha P + beta C
void write(const Gemm& g, const float* product, std::size_t width) {
  for (std::size_t i = 0; i < g.m; ++i) {
    const float* from = product + i * width;
    float* to = g.c + i * g.ldc;
    if (g.beta == 0.0F) {
      std::transform(from, from + g.n, to, [&](float p) { return g.alpha * p; });
    } else {
      std::transform(from, from + g.n, to, to,
                     [&](float p, float c) { return g.alpha * p + g.beta * c; });
    }
  }
}

void tiles(const Gemm& g) {
  HWY_ALIGN float b_rows[kSmallSide * kSmallSide];
  HWY_ALIGN float product[kSmallSide * kSmallSide];
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  const std::size_t width = (g.n + lanes - 1) / lanes * lanes;
  const TileLeft a = g.trans_a ? TileLeft{g.a, 1, g.lda} : TileLeft{g.a, g.lda, 1};
  const TileRight b = whole_rows(g, width, b_rows);
  if (g.n == width && g.alpha == 1.0F && (g.beta == 0.0F || g.beta == 1.0F)) {
    tile_product(g.m, g.n, g.k, a, b, {g.c, g.ldc, g.beta == 1.0F});
    return;
  }
  tile_product(g.m, g.n, g.k, a, b, {product, width, false});
  write(g, product, width);
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(tiles);

// Above it two threads of oneDNN's are faster than one of ours, though signals are held for them.
constexpr std::size_t kMostTerms = std::size_t{64} * 64 * 128;
}  // namespace

bool is_small(const Gemm& g) {
  return std::max({g.m, g.n, g.k}) <= kSmallSide && g.m * g.n * g.k <= kMostTerms;
}

void small_gemm(const Gemm& g) {
  assert(is_small(g));
  HWY_DYNAMIC_DISPATCH(tiles)(g);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
