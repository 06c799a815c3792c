// Softmax cross-entropy over a large vocabulary with the head's product inside: logits exist only
// in blocks, never as a (rows,V) matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "darkformer/kernels/stored_matrix.h"
#include "darkformer/kernels/token_ids.h"

namespace darkformer::kernels {

// l[n][v] = sum_e hidden[n][e] weight[v][e], then l <- softcap tanh(l / softcap) if softcap > 0.
// The weight is usually the embedding table itself (a tied head).
struct CrossEntropyProblem {
  const float* hidden;   // (rows,E)
  std::size_t rows;      // E and V are those of the weight
  StoredMatrix weight;   // (V,E), V >= 1
  TokenIds targets;      // one a row, below V; a negative one (such as -100) leaves its row out
  float softcap = 0.0F;  // 0: none
};

// lse[n] <- log sum_v e^l[n][v]
// loss[n] <- lse[n] - l[n][targets[n]], and 0 where the row is left out
// correct[n] <- 1 where the target has the largest logit (the first of equals), else 0
//   one value a row; correct may be null. A NaN logit gives a NaN loss and lse.
struct CrossEntropyResult {
  float* loss;
  float* lse;
  std::uint8_t* correct = nullptr;
};
void cross_entropy(const CrossEntropyProblem& problem, const CrossEntropyResult& result);

// With p = e^(l - lse), from blocks of logits computed again:
//   dl[n][v] = dloss[n] (p[n][v] - [v = targets[n]]) (1 - (l[n][v] / softcap)^2)
//   dhidden <- dl weight            dweight <- dl^T hidden
// lse as cross_entropy gave it; dloss (rows), not read for rows that are left out.
// dhidden (rows,E), dweight (V,E) float32; either may be null and is then not computed.
struct CrossEntropyGradients {
  float* dhidden = nullptr;
  float* dweight = nullptr;
  bool add_to_dweight = false;  // dweight <- dweight + dl^T hidden instead
};
void cross_entropy_backward(const CrossEntropyProblem& problem,
                            const float* lse,
                            const float* dloss,
                            const CrossEntropyGradients& gradients);

// Scratch: for each thread kRows x kColumns logits and kColumns x E widened weights (none for
// float32), and in backward kShares x kRows x E of dhidden. Threads share the vocabulary, whose cut
// into chunks and shares does not depend on their number: for V > kColumns neither do the bits.
struct CrossEntropyBlock {
  static constexpr std::size_t kRows = 512, kColumns = 512, kShares = 32;
};

// The same in double with all logits of a row at once.
struct CrossEntropyReference {
  double *loss, *lse;
  std::uint8_t* correct;
  double *dhidden, *dweight;  // (rows,E), (V,E)
};
void cross_entropy_ref(const CrossEntropyProblem& problem,
                       const float* dloss,
                       const CrossEntropyReference& result);

}  // namespace darkformer::kernels
