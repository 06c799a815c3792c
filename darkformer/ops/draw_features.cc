// Draws through the kernel.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/draw_features.h"

#include <ATen/ATen.h>

#include <limits>

#include "darkformer/base/error.h"
#include "darkformer/kernels/draw_features.h"

namespace darkformer::ops {

at::Tensor draw_features(std::int64_t groups,
                         std::int64_t features,
                         std::int64_t rank,
                         std::int64_t seed,
                         std::int64_t stream,
                         std::int64_t index,
                         bool orthogonal) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  require(groups > 0 && features > 0 && rank > 0, "draw_features: groups, features and rank are ",
          groups, ", ", features, " and ", rank, "; all must be positive");
  require(stream >= 0 && stream <= kMost && index >= 0 && index <= kMost,
          "draw_features: stream is ", stream, " and index is ", index,
          "; both must be 32-bit and not negative");
  constexpr double kMostValues = 1e11;
  require(static_cast<double>(groups) * static_cast<double>(features) * static_cast<double>(rank) <=
              kMostValues,
          "draw_features: ", groups, " x ", features, " x ", rank,
          " numbers are too many (groups x features x rank)");
  const at::Tensor draws = at::empty({groups, features, rank}, at::kFloat);
  kernels::draw_features(
      {static_cast<std::size_t>(groups), static_cast<std::size_t>(features),
       static_cast<std::size_t>(rank), static_cast<std::uint64_t>(seed),
       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(index), orthogonal},
      draws.data_ptr<float>());
  return draws;
}

}  // namespace darkformer::ops
