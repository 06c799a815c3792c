// The schemas of libdarkformer_ops.so: what torch.ops.darkformer offers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "darkformer/base/error.h"
#include "darkformer/ops/dark_attention.h"
#include "darkformer/ops/draw_features.h"
#include "darkformer/ops/exact_attention.h"
#include "darkformer/ops/gated_unit.h"
#include "darkformer/ops/linear.h"
#include "darkformer/ops/random_attention.h"
#include "darkformer/ops/rms_norm.h"
#include "darkformer/ops/rotary.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using at::Tensor;
using MaybeTensor = Optional<Tensor>;

// The arguments that all three dark ops share, in the order of their schemas.
#define DARK_ARGUMENTS                                                                          \
  const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &draws,                       \
      const MaybeTensor &factor, const MaybeTensor &key_factor, const MaybeTensor &log_weights, \
      const MaybeTensor &query_center, const MaybeTensor &key_center, const MaybeTensor &gate,  \
      Optional<double> scale, bool causal, int64_t window, int64_t sinks, bool model_near,      \
      bool far_all, bool softmax_features
#define DARK_OPTIONS                                                                               \
  DarkOptions {                                                                                    \
    factor, key_factor, log_weights, query_center, key_center, gate, scale, causal, window, sinks, \
        model_near, far_all, softmax_features                                                      \
  }
#define DARK_SCHEMA                                                                               \
  "Tensor q, Tensor k, Tensor v, Tensor draws, Tensor? factor=None, *, Tensor? key_factor=None, " \
  "Tensor? log_weights=None, Tensor? query_center=None, Tensor? key_center=None, Tensor? "        \
  "gate=None, "                                                                                   \
  "float? scale=None, bool causal=True, int window=0, int sinks=0, bool "                         \
  "model_near=False, bool far_all=False, bool softmax_features=False"

Tensor attention(DARK_ARGUMENTS) {
  return dark_attention(q, k, v, draws, DARK_OPTIONS);
}

std::tuple<Tensor, std::vector<Tensor>> prefill(DARK_ARGUMENTS, const std::vector<Tensor>& state) {
  DarkPrefill result = dark_attention_prefill(q, k, v, draws, DARK_OPTIONS, state);
  return {result.out, result.state};
}

Tensor step(DARK_ARGUMENTS, std::vector<Tensor> state) {
  return dark_attention_step(q, k, v, draws, DARK_OPTIONS, state);
}

Tensor exact(const Tensor& q,
             const Tensor& k,
             const Tensor& v,
             Optional<double> scale,
             bool causal,
             int64_t window,
             double softcap) {
  return exact_attention(q, k, v, {scale, causal, window, softcap});
}

Tensor random(
    const Tensor& v, int64_t heads, int64_t seed, int64_t layer, int64_t index, int64_t start) {
  return random_attention(v, {seed, layer, index, heads}, start);
}

// Tables of a process, one for each rotation and power of two of positions in use.
std::shared_ptr<const RotaryTable> rotary_table(int64_t D,
                                                double base,
                                                double factor,
                                                int64_t end) {
  constexpr std::uint64_t kFewestPositions = 512;
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, double, double, int64_t>, std::shared_ptr<const RotaryTable>>
      tables;
  const auto positions = static_cast<int64_t>(
      std::bit_ceil(std::max(kFewestPositions, static_cast<std::uint64_t>(end))));
  const std::lock_guard lock(mutex);
  auto& table = tables[{D, base, factor, positions}];
  if (table == nullptr) {
    table = make_rotary_table(D, base, factor, positions);
  }
  return table;
}

Tensor rotated(const Tensor& x, double base, double factor, int64_t start) {
  constexpr int64_t kMostPositions = int64_t{1} << 24;
  require(x.dim() == 4 && start >= 0 && start <= kMostPositions - x.size(2), "rotary: x is ",
          describe(x), " and starts at ", start, "; wanted (B,H,T,D) and at most ", kMostPositions,
          " positions");
  return rotary(x, rotary_table(x.size(3), base, factor, start + x.size(2)), start);
}

// The norms of Gemma 1 to 3, whose weights are offsets from one.
Tensor norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return rms_norm(x, weight, epsilon);
}

Tensor geglu(const Tensor& gate, const Tensor& up) {
  return gated_unit(gate, up, Activation::kGeluTanh);
}

TORCH_LIBRARY(darkformer, library) {
  library.def("dark_attention(" DARK_SCHEMA ") -> Tensor", attention);
  library.def("dark_attention_prefill(" DARK_SCHEMA ", Tensor[] state) -> (Tensor, Tensor[])",
              prefill);
  library.def("dark_attention_step(" DARK_SCHEMA ", Tensor(a!)[] state) -> Tensor", step);
  library.def(
      "exact_attention(Tensor q, Tensor k, Tensor v, *, float? scale=None, bool causal=True, int "
      "window=0, float softcap=0) -> Tensor",
      exact);
  library.def(
      "draw_features(int groups, int features, int rank, int seed, int stream, int index, bool "
      "orthogonal=True) -> Tensor",
      draw_features);
  library.def(
      "random_attention(Tensor v, int heads, int seed, int layer, int index, int start=0) -> "
      "Tensor",
      random);
  // What surrounds attention in a decoder, so that a model in Python adds up in the program's
  // order.
  library.def("linear(Tensor x, Tensor weight) -> Tensor", linear);
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> Tensor", norm);
  library.def("geglu(Tensor gate, Tensor up) -> Tensor", geglu);
  library.def("rotary(Tensor x, float base, float factor=1, int start=0) -> Tensor", rotated);
  // For tests: run every op of this thread as its composition of ATen calls.
  library.def("force_composition(bool forced) -> ()", set_composition_forced);
  library.def("vanished_rows() -> int", vanished_rows);
}

}  // namespace
}  // namespace darkformer::ops
