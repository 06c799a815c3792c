// Cross-entropy block by block: a product, a pass over its logits, and on to the next block.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/cross_entropy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/gemm.h"
#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// l <- softcap tanh(l / softcap)
void cap_logits(float* logits, std::size_t count, float softcap) {
  for_parts(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto scaled = hn::Mul(load_part(d, logits + i, part), hn::Set(d, 1.0F / softcap));
    store_part(hn::Mul(tanh(d, scaled), hn::Set(d, softcap)), d, logits + i, part);
  });
}

float largest_of(const float* logits, std::size_t count) {
  const hn::ScalableTag<float> all;
  auto largest = hn::Set(all, logits[0]);
  for_parts(count, [&](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto v = load_part(d, logits + i, part);
    const auto valid = hn::FirstN(d, part);
    largest = hn::Max(largest, hn::IfThenElse(valid, v, largest));
  });
  return max_of_lanes(all, largest);
}

// sum of e^(l - offset)
float sum_of_exponentials(const float* logits, std::size_t count, float offset) {
  return sum_over(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto e = exp(d, hn::Sub(load_part(d, logits + i, part), hn::Set(d, offset)));
    return part < hn::Lanes(d) ? hn::IfThenElseZero(hn::FirstN(d, part), e) : e;
  });
}

// l <- dloss e^(l - lse) (1 - (l inverse_cap)^2)
void logits_to_gradient(
    float* logits, std::size_t count, float lse, float dloss, float inverse_cap) {
  for_parts(count, [=](auto d, std::size_t i, std::size_t part) HWY_ATTR {
    const auto l = load_part(d, logits + i, part);
    const auto p = hn::Mul(exp(d, hn::Sub(l, hn::Set(d, lse))), hn::Set(d, dloss));
    const auto t = hn::Mul(l, hn::Set(d, inverse_cap));
    store_part(hn::Mul(p, hn::NegMulAdd(t, t, hn::Set(d, 1.0F))), d, logits + i, part);
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(cap_logits);
HWY_EXPORT(largest_of);
HWY_EXPORT(sum_of_exponentials);
HWY_EXPORT(logits_to_gradient);

using Problem = CrossEntropyProblem;
constexpr std::size_t kRows = CrossEntropyBlock::kRows;
constexpr std::size_t kColumns = CrossEntropyBlock::kColumns;

// Rows [row, row + rows) against words [word, word + words): one block of logits.
struct Block {
  std::size_t row, rows, word, words;
};

// A range of vocabulary chunks and the scratch of the thread that walks it.
class Worker {
 public:
  Worker(const Problem& problem, std::size_t rows)
      : problem_(problem),
        logits_(rows * std::min(kColumns, problem.weight.rows)),
        widened_(problem.weight.type == StoredType::kFloat32
                     ? 0
                     : std::min(kColumns, problem.weight.rows) * problem.weight.cols) {}

  // The rows of the weight for these words, in float32.
  const float* weights(const Block& block) {
    const StoredMatrix& weight = problem_.weight;
    if (weight.type == StoredType::kFloat32) {
      return static_cast<const float*>(weight.row(block.word));
    }
    convert_to_float(weight.row(block.word), weight.type, block.words * weight.cols,
                     widened_.data());
    return widened_.data();
  }
  // logits (rows, words) <- hidden weight^T, capped
  float* logits(const Block& block, const float* weights) {
    const std::size_t E = problem_.weight.cols;
    gemm({.m = block.rows,
          .n = block.words,
          .k = E,
          .a = problem_.hidden + block.row * E,
          .lda = E,
          .b = weights,
          .ldb = E,
          .trans_b = true,
          .c = logits_.data(),
          .ldc = block.words});
    if (problem_.softcap > 0.0F) {
      HWY_DYNAMIC_DISPATCH(cap_logits)
      (logits_.data(), block.rows * block.words, problem_.softcap);
    }
    return logits_.data();
  }

 private:
  const Problem& problem_;
  AlignedBuffer<float> logits_;
  AlignedBuffer<float> widened_;
};

// The words of chunk c.
Block chunk(const Problem& problem, std::size_t row, std::size_t rows, std::size_t c) {
  const std::size_t word = c * kColumns;
  return {row, rows, word, std::min(kColumns, problem.weight.rows - word)};
}

std::size_t count_chunks(const Problem& problem) {
  return (problem.weight.rows + kColumns - 1) / kColumns;
}

// What one chunk of words says about one row.
struct Summary {
  float largest, sum;  // sum of e^(l - largest)
};

// Where a row's target stands. Written by the one chunk that holds it.
struct Target {
  float logit = 0.0F;
  bool first = false;  // no earlier word of its chunk has the same logit
};

void summarise(const Problem& problem,
               const Block& block,
               const float* logits,
               Summary* summaries,
               Target* targets) {
  for (std::size_t r = 0; r < block.rows; ++r) {
    const float* row = logits + r * block.words;
    const float largest = HWY_DYNAMIC_DISPATCH(largest_of)(row, block.words);
    summaries[r] = {largest, HWY_DYNAMIC_DISPATCH(sum_of_exponentials)(row, block.words, largest)};
    const std::int64_t word =
        problem.targets[block.row + r] - static_cast<std::int64_t>(block.word);
    if (word >= 0 && word < static_cast<std::int64_t>(block.words)) {
      targets[r] = {row[word], std::find(row, row + word, row[word]) == row + word};
    }
  }
}

// One row from the summaries of all chunks, which lie `rows` apart.
class RowTotal {
 public:
  RowTotal(const Summary* first, std::size_t rows, std::size_t chunks) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < chunks; ++c) {
      largest = std::max<double>(largest, first[c * rows].largest);
    }
    double sum = 0.0;
    for (std::size_t c = 0; c < chunks; ++c) {
      sum += std::exp(first[c * rows].largest - largest) * first[c * rows].sum;
    }
    lse_ = largest + std::log(sum);
    largest_ = static_cast<float>(largest);
    while (leader_ < chunks && first[leader_ * rows].largest != largest_) {
      ++leader_;
    }
  }
  double lse() const { return lse_; }
  // Whether the target is the first of the largest logits: it leads the first chunk that has them.
  bool led_by(const Target& target, std::size_t word) const {
    return target.logit == largest_ && target.first && word / kColumns == leader_;
  }

 private:
  double lse_ = 0.0;
  float largest_ = 0.0F;
  std::size_t leader_ = 0;
};

void write_row(const Problem& problem,
               std::size_t n,
               const RowTotal& total,
               const Target& target,
               const CrossEntropyResult& result) {
  const bool counts = problem.targets[n] >= 0;
  result.lse[n] = static_cast<float>(total.lse());
  result.loss[n] = counts ? static_cast<float>(total.lse() - target.logit) : 0.0F;
  if (result.correct != nullptr) {
    const auto word = static_cast<std::size_t>(problem.targets[n]);
    result.correct[n] = counts && total.led_by(target, word) ? 1 : 0;
  }
}

void forward_rows(const Problem& problem,
                  std::size_t row,
                  std::size_t rows,
                  const CrossEntropyResult& result) {
  const std::size_t chunks = count_chunks(problem);
  std::vector<Summary> summaries(chunks * rows);
  std::vector<Target> targets(rows);
  parallel_ranges(chunks, 1, [&](std::size_t begin, std::size_t end) {
    Worker worker(problem, rows);
    for (std::size_t c = begin; c < end; ++c) {
      const Block block = chunk(problem, row, rows, c);
      const float* logits = worker.logits(block, worker.weights(block));
      summarise(problem, block, logits, summaries.data() + c * rows, targets.data());
    }
  });
  for (std::size_t r = 0; r < rows; ++r) {
    write_row(problem, row + r, RowTotal(summaries.data() + r, rows, chunks), targets[r], result);
  }
}

// logits <- dl, in place
void to_gradient(const Problem& problem,
                 const Block& block,
                 const float* lse,
                 const float* dloss,
                 float* logits) {
  const float inverse_cap = problem.softcap > 0.0F ? 1.0F / problem.softcap : 0.0F;
  for (std::size_t r = 0; r < block.rows; ++r) {
    const std::size_t n = block.row + r;
    float* row = logits + r * block.words;
    if (problem.targets[n] < 0) {
      std::fill(row, row + block.words, 0.0F);
      continue;
    }
    const std::int64_t word = problem.targets[n] - static_cast<std::int64_t>(block.word);
    const bool here = word >= 0 && word < static_cast<std::int64_t>(block.words);
    const float t = here ? row[word] * inverse_cap : 0.0F;
    HWY_DYNAMIC_DISPATCH(logits_to_gradient)(row, block.words, lse[n], dloss[n], inverse_cap);
    if (here) {
      row[word] -= dloss[n] * (1.0F - t * t);
    }
  }
}

// dhidden (rows,E) <- [dhidden +] dl weight
void add_dhidden(const Problem& problem,
                 const Block& block,
                 const float* dlogits,
                 const float* weights,
                 bool add,
                 float* dhidden) {
  const std::size_t E = problem.weight.cols;
  gemm({.m = block.rows,
        .n = E,
        .k = block.words,
        .a = dlogits,
        .lda = block.words,
        .b = weights,
        .ldb = E,
        .c = dhidden,
        .ldc = E,
        .beta = add ? 1.0F : 0.0F});
}

// dweight of these words <- [dweight +] dl^T hidden
void add_dweight(
    const Problem& problem, const Block& block, const float* dlogits, bool add, float* dweight) {
  const std::size_t E = problem.weight.cols;
  gemm({.m = block.words,
        .n = E,
        .k = block.rows,
        .a = dlogits,
        .lda = block.words,
        .trans_a = true,
        .b = problem.hidden + block.row * E,
        .ldb = E,
        .c = dweight + block.word * E,
        .ldc = E,
        .beta = add ? 1.0F : 0.0F});
}

// to <- shares[0] + shares[1] + ... in this order, `size` values each
void add_shares(const float* shares, std::size_t count, std::size_t size, float* to) {
  parallel_ranges(size, 4096, [=](std::size_t begin, std::size_t end) {
    std::copy(shares + begin, shares + end, to + begin);
    for (std::size_t s = 1; s < count; ++s) {
      for (std::size_t i = begin; i < end; ++i) {
        to[i] += shares[s * size + i];
      }
    }
  });
}

void backward_rows(const Problem& problem,
                   std::size_t row,
                   std::size_t rows,
                   const float* lse,
                   const float* dloss,
                   const CrossEntropyGradients& gradients) {
  const std::size_t E = problem.weight.cols, chunks = count_chunks(problem);
  const std::size_t ranges = std::min(chunks, CrossEntropyBlock::kShares);
  const bool want_dhidden = gradients.dhidden != nullptr;
  AlignedBuffer<float> shares(want_dhidden ? ranges * rows * E : 0);  // of dhidden
  parallel_for(ranges, [&](std::size_t r) {
    Worker worker(problem, rows);
    const std::size_t begin = chunks * r / ranges, end = chunks * (r + 1) / ranges;
    for (std::size_t c = begin; c < end; ++c) {
      const Block block = chunk(problem, row, rows, c);
      const float* weights = worker.weights(block);
      float* dlogits = worker.logits(block, weights);
      to_gradient(problem, block, lse, dloss, dlogits);
      if (want_dhidden) {
        add_dhidden(problem, block, dlogits, weights, c > begin, shares.data() + r * rows * E);
      }
      if (gradients.dweight != nullptr) {
        const bool add = gradients.add_to_dweight || row > 0;
        add_dweight(problem, block, dlogits, add, gradients.dweight);
      }
    }
  });
  if (want_dhidden) {
    add_shares(shares.data(), ranges, rows * E, gradients.dhidden + row * E);
  }
}

}  // namespace

void cross_entropy(const Problem& problem, const CrossEntropyResult& result) {
  assert(problem.weight.rows > 0);
  for (std::size_t row = 0; row < problem.rows; row += kRows) {
    forward_rows(problem, row, std::min(kRows, problem.rows - row), result);
  }
}

void cross_entropy_backward(const Problem& problem,
                            const float* lse,
                            const float* dloss,
                            const CrossEntropyGradients& gradients) {
  for (std::size_t row = 0; row < problem.rows; row += kRows) {
    backward_rows(problem, row, std::min(kRows, problem.rows - row), lse, dloss, gradients);
  }
  if (problem.rows == 0 && gradients.dweight != nullptr && !gradients.add_to_dweight) {
    std::fill_n(gradients.dweight, problem.weight.rows * problem.weight.cols, 0.0F);
  }
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
