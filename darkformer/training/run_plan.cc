// Counting what the layers keep, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/run_plan.h"

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/checkpoint/tensor_names.h"
#include "darkformer/evaluation/evaluator.h"
#include "darkformer/kernels/cross_entropy.h"
#include "darkformer/text/shared_batch.h"
#include "darkformer/training/distillation.h"

namespace darkformer {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
// The program with its libraries, before it has read anything.
constexpr std::int64_t kProgram = std::int64_t{160} << 20U;
constexpr std::int64_t kPieceBytes = 200;  // of a tokenizer, for each word of the vocabulary
constexpr std::int64_t kChunk = 64;        // tokens between two kept states (kernels/feature_plan)

// A step reaches this share of the rate of products alone: norms, features and memory take the
// rest. A rough figure (0.5 to 0.7 was measured); other models and machines will differ.
constexpr double kStepShare = 0.6;
// Bytes that the optimiser moves for each number, and a core's rate of moving them.
constexpr double kUpdateBytes = 28, kMoveRate = 5e9;
constexpr double kBackwardOfAttention = 2.5;  // times its forward pass, of every kind

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return count;
}

std::int64_t stored_bytes(const ModelConfig& config) {
  const std::int64_t plain = config.dtype == "float32" ? 4 : 2;
  std::int64_t sum = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    sum += elements(tensor.shape) * (tensor.is_dark ? kFloat : plain);
  }
  return sum;
}

// Sets of per-head parameters that the kernels see.
std::int64_t groups_of(const ModelConfig& config, std::int64_t layer) {
  return config.attention[static_cast<std::size_t>(layer)].placement == Placement::kQueryHead
             ? config.heads
             : config.kv_heads_of(layer);
}

// Floats for each token.
struct LayerValues {
  std::int64_t kept = 0;     // from the forward to the backward pass, the layer's input included
  std::int64_t scratch = 0;  // more in its own backward pass
};

// What the mixer keeps besides q, k, v and its output, which stand in attention_values.
std::int64_t mixer_values(const ModelConfig& config, std::int64_t layer) {
  const AttentionSpec& spec = config.attention[static_cast<std::size_t>(layer)];
  const std::int64_t H = config.heads, Q = config.query_width(layer);
  if (!has_features(spec.kind)) {
    return H;  // log of the sums, or less
  }
  const std::int64_t N = groups_of(config, layer), F = spec.features, R = spec.rank,
                     D = config.head_dim_of(layer);
  std::int64_t kept = H + N * F * (D + 1) / kChunk;  // sums, states at chunk ends
  if (!has_draws(spec.kind)) {
    constexpr std::int64_t kSums = 2;  // of both halves, beside each row
    kept += (N + H) * (D + kSums);
    kept += spec.window > 0 || spec.sinks > 0 ? 2 * Q + 2 * H + config.kv_heads_of(layer) * D : 0;
    return kept + (spec.gate ? 4 * H : 0);
  }
  kept += has_factor(spec.kind) ? N * R : 0;  // mapped keys
  if (spec.window > 0 || spec.sinks > 0) {
    const bool own = !has_factor(spec.kind) || spec.near == NearKernel::kModel;
    kept += 2 * Q + 2 * H;                            // both fields
    kept += has_factor(spec.kind) ? H * R : 0;        // mapped queries
    kept += own ? config.kv_heads_of(layer) * D : 0;  // near keys as the model has them
  }
  return kept + (spec.gate ? 4 * H : 0);
}

// The values that autograd saves: each op's inputs as far as its backward needs them. A frozen
// weight's input is not needed.
LayerValues layer_values(const ModelConfig& config, std::int64_t layer, TrainScope scope) {
  const bool all = scope == TrainScope::kAll;
  const std::int64_t E = config.hidden_size, I = config.intermediate_of(layer),
                     P = config.per_layer_size, Q = config.query_width(layer),
                     K = config.owns_keys(layer) ? config.kv_width(layer) : 0;
  LayerValues values;
  values.kept = 2 * E;                         // into the layer, and behind its attention
  values.kept += E;                            // normed, for q, k and v, which are always trained
  values.kept += 2 * Q + 2 * K;                // q, k, v, output of the mixer
  values.kept += mixer_values(config, layer);  // and its own
  values.kept += 2 * I;                        // both factors of the feed-forward part
  values.kept += all ? Q + E + I : 0;          // inputs of o, of gate and up, of down
  values.kept += config.parts().post_norms ? 2 * E : 0;
  values.kept += config.parts().qk_norm ? Q + K : 0;
  values.kept += config.parts().value_norm ? K : 0;
  values.kept += config.parts().layer_scalar ? E : 0;
  values.kept += P > 0 ? 2 * E + (all ? 3 : 2) * P : 0;  // the layer's own embedding
  const std::int64_t feed_forward = 3 * I + 2 * E;
  const std::int64_t attention = 3 * Q + 3 * K + 3 * E + mixer_values(config, layer);
  values.scratch = std::max(feed_forward, attention);
  return values;
}

std::int64_t rank_rows(const PlannedRun& run) {
  require_shareable(run.batch, run.ranks);
  return (run.batch + run.ranks - 1) / run.ranks;
}

std::int64_t pass_rows(const PlannedRun& run) {
  return run.pass_rows > 0 ? std::min(run.pass_rows, rank_rows(run)) : rank_rows(run);
}

// Scratch of the head and its loss: blocks of logits and widened weights, and in the backward pass
// shares of the hidden states' gradient.
std::int64_t loss_scratch(const PlannedRun& run, std::int64_t tokens) {
  using Block = kernels::CrossEntropyBlock;
  const auto rows = std::min<std::int64_t>(tokens, Block::kRows);
  const std::int64_t E = run.config.hidden_size;
  const std::int64_t thread = static_cast<std::int64_t>(Block::kColumns) * (rows + E);
  const std::int64_t shares =
      std::min<std::int64_t>(Block::kShares, run.config.vocab_size / Block::kColumns + 1);
  return run.threads * thread + shares * rows * E;
}

// A forward pass without gradients: the widest moment of a layer.
std::int64_t forward_floats(const ModelConfig& config) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t feed_forward = 3 * config.intermediate_of(i),
                       attention = 3 * config.query_width(i) + 2 * config.kv_width(i);
    widest = std::max({widest, feed_forward, attention});
  }
  return widest + 2 * config.hidden_size + config.layers * config.per_layer_size;
}

struct Counted {
  std::int64_t kept = 0;     // of all layers
  std::int64_t layer = 0;    // the largest of one
  std::int64_t scratch = 0;  // the largest of one
};

Counted count_layers(const PlannedRun& run) {
  Counted sum;
  for (std::int64_t i = 0; i < run.config.layers; ++i) {
    const LayerValues values = layer_values(run.config, i, run.scope);
    sum.kept += run.recompute ? run.config.hidden_size : values.kept;
    sum.layer = std::max(sum.layer, values.kept);
    sum.scratch = std::max(sum.scratch, values.scratch);
  }
  return sum;
}

// The two moments of the backward pass, of which the larger one counts.
void add_backward(const PlannedRun& run, MemoryPlan& plan) {
  const std::int64_t tokens = pass_rows(run) * run.context, E = run.config.hidden_size;
  const Counted counted = count_layers(run);
  // Gradients that are there all the time: those of several passes add up, those of several ranks
  // stand in buckets.
  const std::int64_t all = kFloat * trained_count(run.config, run.scope);
  const bool stays = run.ranks > 1 || pass_rows(run) < rank_rows(run);
  const std::int64_t head = run.scope == TrainScope::kAll ? kFloat * run.config.vocab_size * E : 0;
  const std::int64_t tail = 3 * E;  // final norm and its output, with a gradient
  const std::int64_t repeated = run.recompute ? counted.layer : 0;

  MemoryPlan early = plan, late = plan;
  early.activations = kFloat * tokens * (counted.kept + tail);
  early.scratch = std::max(kFloat * tokens * (repeated + counted.scratch),
                           kFloat * (loss_scratch(run, tokens) + tokens * E));
  if (run.distills_logits) {  // two more hidden states: the teacher's, and a gradient
    early.scratch =
        std::max(early.scratch,
                 kFloat * (distillation_floats(run.config.vocab_size, tokens) + 2 * tokens * E));
  }
  early.gradients = head + (stays ? all : 0);
  late.activations = kFloat * tokens * (run.recompute ? E : counted.layer);
  late.scratch = kFloat * tokens * (repeated + counted.scratch);
  late.gradients = all + (stays ? 2 : 1) * head;  // the tied head's two gradients meet
  plan = early.own() >= late.own() ? early : late;
}

// Between the steps: the teacher's or the held-out text's forward pass.
std::int64_t forward_bytes(const ModelConfig& config, std::int64_t tokens) {
  return kFloat * tokens * forward_floats(config);
}

// Arithmetic of one token in products with the weights of all layers.
double matrix_flops(const ModelConfig& config) {
  std::int64_t weights = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t keys = config.owns_keys(i) ? (config.values_are_keys(i) ? 1 : 2) : 0;
    weights += 2 * config.query_width(i) + keys * config.kv_width(i) +
               3 * config.intermediate_of(i) + 3 * config.per_layer_size;
  }
  return 2 * static_cast<double>(config.hidden_size) * static_cast<double>(weights);
}

// Of a converted layer's tensors: the others are drawn or fitted.
bool is_learned(const AttentionSpec& spec, const std::string& name) {
  const AttentionKind kind = spec.kind;
  return name.find(".gate_") != std::string::npos || (learns(kind) && name.ends_with("factor")) ||
         (learns_draws(spec) && name.ends_with(".draws"));
}

double attention_flops(const ModelConfig& config, std::int64_t layer, std::int64_t context) {
  const AttentionSpec& spec = config.attention[static_cast<std::size_t>(layer)];
  const auto Q = static_cast<double>(config.query_width(layer)),
             D = static_cast<double>(config.head_dim_of(layer));
  const auto T = static_cast<double>(context);
  if (spec.kind == AttentionKind::kConstant) {
    return Q;
  }
  if (!has_features(spec.kind)) {
    const double sliding = static_cast<double>(config.window(layer));
    const double own = spec.kind == AttentionKind::kWindow ? static_cast<double>(spec.window) : 0;
    const double window = sliding > 0 && own > 0 ? std::min(sliding, own) : std::max(sliding, own);
    return 4 * Q * (window > 0 ? std::min(window, T / 2) : T / 2);
  }
  const auto H = static_cast<double>(config.heads),
             N = static_cast<double>(groups_of(config, layer));
  const auto F = static_cast<double>(spec.features), R = static_cast<double>(spec.rank);
  const double maps = has_draws(spec.kind) ? 0 : (H + N) * F * D;
  const double queries = H * (4 * F * D + kChunk * (F + D)) + maps,
               keys = N * (2 * D * R + 4 * F * R);
  return queries + keys + 4 * Q * static_cast<double>(spec.window + spec.sinks);
}

}  // namespace

std::int64_t trained_count(const ModelConfig& config, TrainScope scope) {
  std::int64_t sum = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    sum += !tensor.is_dark && is_trained(scope, tensor.name) ? elements(tensor.shape) : 0;
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const AttentionSpec& spec = config.attention[static_cast<std::size_t>(i)];
    for (const ExpectedTensor& tensor : dark_tensors(config, i)) {
      sum += is_learned(spec, tensor.name) ? elements(tensor.shape) : 0;
    }
  }
  return sum;
}

MemoryPlan plan_memory(const PlannedRun& run) {
  MemoryPlan plan;
  const std::int64_t trained = trained_count(run.config, run.scope);
  // Weights that are all trained leave nothing of the file behind.
  plan.mapped = run.from_folder && run.scope != TrainScope::kAll ? stored_bytes(run.config) : 0;
  plan.weights = kFloat * trained;
  plan.moments = run.optimizer == OptimizerKind::kAdamw ? 2 * plan.weights : 0;
  plan.program = kProgram + kPieceBytes * run.config.vocab_size;
  std::int64_t between = 0;
  if (run.teacher) {
    plan.mapped += stored_bytes(*run.teacher);
    between = forward_bytes(*run.teacher, pass_rows(run) * run.context);
  }
  if (run.measures_held_out) {
    between =
        std::max(between, forward_bytes(run.config, evaluation_rows(run.context) * run.context));
  }
  const std::int64_t idle = plan.own();
  add_backward(run, plan);
  if (idle + between > plan.own()) {
    plan.activations = plan.gradients = 0;
    plan.scratch = between;
  }
  return plan;
}

StepPlan plan_step(const PlannedRun& run, const MachineSpeed& speed) {
  StepPlan plan;
  const ModelConfig& config = run.config;
  plan.tokens = run.batch * run.context;
  const double tokens = static_cast<double>(rank_rows(run) * run.context);
  const double matrices = matrix_flops(config);
  const double head =
      2 * static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  double attention = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    attention += attention_flops(config, i, run.context);
  }
  const bool all = run.scope == TrainScope::kAll;
  const double trained = static_cast<double>(trained_count(config, run.scope));
  const double trained_products = all ? matrices : 2 * trained;
  plan.forward_flops = tokens * (matrices + attention + head);
  // Gradients of inputs, of trained weights; the loss computes its logits again.
  plan.backward_flops =
      tokens * (matrices + trained_products + kBackwardOfAttention * attention +
                (all ? 3 : 2) * head + (run.recompute ? matrices + attention : 0));
  const double update = trained * kUpdateBytes /
                        (kMoveRate * static_cast<double>(std::max<std::int64_t>(1, run.threads)));
  const double rate = kStepShare * speed.flops;
  plan.compute_seconds = (plan.forward_flops + plan.backward_flops) / rate + update;
  const auto n = static_cast<double>(run.ranks);
  plan.sent_bytes = 2 * (n - 1) / n * kFloat * trained;
  plan.traffic_seconds = plan.sent_bytes / speed.bandwidth;
  // Buckets travel while the backward pass goes on.
  plan.seconds =
      std::max(plan.compute_seconds, plan.forward_flops / rate + update + plan.traffic_seconds);
  return plan;
}

}  // namespace darkformer
