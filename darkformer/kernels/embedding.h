// Token embeddings: gather rows of a stored table, and scatter their gradients back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"
#include "darkformer/kernels/token_ids.h"

namespace darkformer::kernels {

// out[n][e] <- scale * weight[ids[n]][e], for n < tokens.
//   weight (V,E) stored; out (tokens,E) float32; 0 <= ids[n] < V. No aliasing. Threads share n.
void embed(
    const StoredMatrix& weight, const TokenIds& ids, std::size_t tokens, float scale, float* out);

struct EmbeddingShape {
  std::size_t tokens = 0, V = 0, E = 0;
};

// dweight[ids[n]][e] <- dweight[ids[n]][e] + scale * dout[n][e], for n = 0 .. tokens-1 in this
// order.
//   dout (tokens,E), dweight (V,E) float32, added to: rows without an id keep their values.
// Threads share the columns, so every sum has one owner and one order: the bits do not depend on
// the thread count.
void embed_backward(const EmbeddingShape& shape,
                    const TokenIds& ids,
                    const float* dout,
                    float scale,
                    float* dweight);

// The same in plain loops, in double.
void embed_ref(
    const StoredMatrix& weight, const TokenIds& ids, std::size_t tokens, double scale, double* out);
void embed_backward_ref(const EmbeddingShape& shape,
                        const TokenIds& ids,
                        const float* dout,
                        double scale,
                        double* dweight);

}  // namespace darkformer::kernels
