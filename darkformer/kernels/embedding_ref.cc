// Gather and scatter as their formulas say, in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/embedding.h"

namespace darkformer::kernels {

void embed_ref(const StoredMatrix& weight,
               const TokenIds& ids,
               std::size_t tokens,
               double scale,
               double* out) {
  for (std::size_t n = 0; n < tokens; ++n) {
    for (std::size_t e = 0; e < weight.cols; ++e) {
      const void* row = weight.row(static_cast<std::size_t>(ids[n]));
      out[n * weight.cols + e] = scale * stored_value(row, weight.type, e);
    }
  }
}

void embed_backward_ref(const EmbeddingShape& shape,
                        const TokenIds& ids,
                        const float* dout,
                        double scale,
                        double* dweight) {
  for (std::size_t n = 0; n < shape.tokens; ++n) {
    for (std::size_t e = 0; e < shape.E; ++e) {
      dweight[static_cast<std::size_t>(ids[n]) * shape.E + e] += scale * dout[n * shape.E + e];
    }
  }
}

}  // namespace darkformer::kernels
