// Vectorised gather of embedding rows and an ordered, lock-free scatter of their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/embedding.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/embedding.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/row_loop-inl.h"
#include "darkformer/kernels/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// out <- scale * row
void embed_row(const void* row, StoredType type, std::size_t E, float scale, float* out) {
  with_stored_type(row, type, [=](const auto* typed) HWY_ATTR {
    for_parts(E, [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
      const auto v =
          count < hn::Lanes(d) ? load_stored_tail(d, typed + e, count) : load_stored(d, typed + e);
      store_part(hn::Mul(v, hn::Set(d, scale)), d, out + e, count);
    });
  });
}

// row <- row + scale * gradient
void add_row(const float* gradient, std::size_t count, float scale, float* row) {
  for_parts(count, [=](auto d, std::size_t e, std::size_t part) HWY_ATTR {
    const auto sum = hn::MulAdd(load_part(d, gradient + e, part), hn::Set(d, scale),
                                load_part(d, row + e, part));
    store_part(sum, d, row + e, part);
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(embed_row);
HWY_EXPORT(add_row);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 8192;
// And, in the scatter, at least two cache lines of columns, so that few lines have two owners.
constexpr std::size_t kColumnsPerThread = 32;
}  // namespace

void embed(
    const StoredMatrix& weight, const TokenIds& ids, std::size_t tokens, float scale, float* out) {
  const std::size_t E = weight.cols;
  const std::size_t grain = kValuesPerThread / std::max<std::size_t>(1, E) + 1;
  parallel_ranges(tokens, grain, [&](std::size_t begin, std::size_t end) {
    const auto embed_one = HWY_DYNAMIC_DISPATCH(embed_row);
    for (std::size_t n = begin; n < end; ++n) {
      const auto id = static_cast<std::size_t>(ids[n]);
      assert(id < weight.rows);
      embed_one(weight.row(id), weight.type, E, scale, out + n * E);
    }
  });
}

void embed_backward(const EmbeddingShape& shape,
                    const TokenIds& ids,
                    const float* dout,
                    float scale,
                    float* dweight) {
  const std::size_t columns = kValuesPerThread / std::max<std::size_t>(1, shape.tokens) + 1;
  const std::size_t grain = std::max(kColumnsPerThread, columns);
  parallel_ranges(shape.E, grain, [&](std::size_t begin, std::size_t end) {
    const auto add_one = HWY_DYNAMIC_DISPATCH(add_row);
    for (std::size_t n = 0; n < shape.tokens; ++n) {
      const auto id = static_cast<std::size_t>(ids[n]);
      assert(id < shape.V);
      add_one(dout + n * shape.E + begin, end - begin, scale, dweight + id * shape.E + begin);
    }
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
