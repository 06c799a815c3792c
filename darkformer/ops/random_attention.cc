// Random attention by blocks of rows: weights made when needed, products through kernels/gemm.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/random_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/gemm.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kRows = 64;             // of weights at a time: 64 x S floats per thread
constexpr std::int64_t kMostTokens = 1 << 24;  // t and s take 24 bits each of an element's number

// Sizes and weights of one call.
struct Rows {
  RandomWeights weights;
  std::int64_t B, G, S, Dv, start;

  std::int64_t queries() const { return S - start; }
  std::int64_t blocks() const { return (queries() + kRows - 1) / kRows; }

  // a (rows,keys) <- the normalised weights of queries [first, first + rows) of head h
  void fill(
      std::int64_t h, std::int64_t first, std::int64_t rows, std::int64_t keys, float* a) const {
    const Philox random(static_cast<std::uint64_t>(weights.seed),
                        static_cast<std::uint32_t>(weights.layer),
                        static_cast<std::uint32_t>(weights.index));
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t t = start + first + i;
      float* row = a + i * keys;
      double sum = 0.0;
      for (std::int64_t s = 0; s <= t; ++s) {
        row[s] = static_cast<float>(random.uniform((static_cast<std::uint64_t>(h) << 48) |
                                                   (static_cast<std::uint64_t>(t) << 24) |
                                                   static_cast<std::uint64_t>(s)));
        sum += row[s];
      }
      std::transform(row, row + t + 1, row, [sum](float w) { return static_cast<float>(w / sum); });
      std::fill(row + t + 1, row + keys, 0.0F);
    }
  }

  // body(h, first query, rows, keys, weights (rows,keys)) for the blocks of a head
  template <class Body>
  void for_each_block(std::int64_t h, const Body& body) const {
    std::vector<float> a(static_cast<std::size_t>(kRows * S));
    for (std::int64_t first = 0; first < queries(); first += kRows) {
      const std::int64_t rows = std::min(kRows, queries() - first), keys = start + first + rows;
      fill(h, first, rows, keys, a.data());
      body(first, rows, keys, a.data());
    }
  }
};

class RandomFunction : public torch::autograd::Function<RandomFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const Tensor& v,
                        const RandomWeights& weights,
                        std::int64_t start) {
    const Rows rows = {weights, v.size(0), v.size(1), v.size(2), v.size(3), start};
    const Tensor values = v.contiguous(),
                 out = at::empty({rows.B, weights.heads, rows.queries(), rows.Dv}, v.options());
    const float* from = values.data_ptr<float>();
    float* to = out.data_ptr<float>();
    parallel_for(static_cast<std::size_t>(weights.heads), [&](std::size_t head) {
      const auto h = static_cast<std::int64_t>(head), g = h * rows.G / weights.heads;
      rows.for_each_block(
          h, [&](std::int64_t first, std::int64_t count, std::int64_t keys, const float* a) {
            for (std::int64_t b = 0; b < rows.B; ++b) {
              // out <- a v
              kernels::gemm({.m = size(count),
                             .n = size(rows.Dv),
                             .k = size(keys),
                             .a = a,
                             .lda = size(keys),
                             .b = from + (b * rows.G + g) * rows.S * rows.Dv,
                             .ldb = size(rows.Dv),
                             .c = to + ((b * weights.heads + h) * rows.queries() + first) * rows.Dv,
                             .ldc = size(rows.Dv)});
            }
          });
    });
    context->saved_data["sizes"] =
        std::vector<std::int64_t>{weights.seed, weights.layer, weights.index, weights.heads, rows.B,
                                  rows.G,       rows.S,        rows.Dv,       start};
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list d_out) {
    check_first_order("random_attention");
    const auto n = context->saved_data["sizes"].toIntVector();
    const Rows rows = {{n[0], n[1], n[2], n[3]}, n[4], n[5], n[6], n[7], n[8]};
    const Tensor gradient = d_out[0].contiguous(),
                 dv = at::zeros({rows.B, rows.G, rows.S, rows.Dv}, gradient.options());
    const float* from = gradient.data_ptr<float>();
    float* to = dv.data_ptr<float>();
    const std::int64_t H = rows.weights.heads, shared = H / rows.G;
    parallel_for(static_cast<std::size_t>(rows.G), [&](std::size_t group) {
      const auto g = static_cast<std::int64_t>(group);
      for (std::int64_t h = g * shared; h < (g + 1) * shared; ++h) {
        rows.for_each_block(
            h, [&](std::int64_t first, std::int64_t count, std::int64_t keys, const float* a) {
              for (std::int64_t b = 0; b < rows.B; ++b) {
                // dv <- dv + a^T d_out
                kernels::gemm({.m = size(keys),
                               .n = size(rows.Dv),
                               .k = size(count),
                               .a = a,
                               .lda = size(keys),
                               .trans_a = true,
                               .b = from + ((b * H + h) * rows.queries() + first) * rows.Dv,
                               .ldb = size(rows.Dv),
                               .c = to + (b * rows.G + g) * rows.S * rows.Dv,
                               .ldc = size(rows.Dv),
                               .beta = 1.0F});
              }
            });
      }
    });
    return {dv, Tensor(), Tensor()};
  }

 private:
  static std::size_t size(std::int64_t x) { return static_cast<std::size_t>(x); }
};

}  // namespace

Tensor random_attention(const Tensor& v, const RandomWeights& weights, std::int64_t start) {
  require(v.dim() == 4 && v.scalar_type() == at::kFloat && v.device().is_cpu(),
          "random_attention: v must be a float32 (batch, heads, time, size) on the CPU");
  require(weights.heads > 0 && weights.heads % v.size(1) == 0, "random_attention: ", weights.heads,
          " query heads do not divide among ", v.size(1), " value heads");
  require(v.size(2) <= kMostTokens && start >= 0 && start < v.size(2),
          "random_attention: ", v.size(2), " tokens from ", start, " on; at most ", kMostTokens,
          ", and at least one query");
  return RandomFunction::apply(v, weights, start);
}

}  // namespace darkformer::ops
