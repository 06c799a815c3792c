// Training steps of a small Gemma with each kind of attention, beside the same model in plain ATen.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <iomanip>
#include <memory>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/commands/blas_core.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/initial_weights.h"
#include "darkformer/rivals/plain_gemma.h"

namespace darkformer {
namespace {

using rivals::PlainGemma;

constexpr double kRate = 1e-4, kGradientClip = 1.0;

// A Gemma 1 of a million parameters.
ModelConfig million(const BenchOptions& options, AttentionKind kind, std::int64_t length) {
  ModelConfig config = default_model_config(Family::kGemma1);
  config.vocab_size = 2048;
  config.hidden_size = 128;
  config.intermediate_size = 384;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 1;
  config.head_dim = 32;
  config.query_pre_attn_scalar = 32;
  config.max_positions = length;
  config.layer_kinds = default_layer_kinds(config.family, config.layers, 1);
  AttentionSpec spec{.kind = kind};
  if (has_features(kind)) {
    spec.features = options.features.front();
    spec.rank = config.head_dim;
  }
  config.attention.assign(static_cast<std::size_t>(config.layers), spec);
  check_model_config(config, "bench train");
  return config;
}

bool has_rival(AttentionKind kind) {
  return kind == AttentionKind::kExact || kind == AttentionKind::kPerformer ||
         kind == AttentionKind::kDark || kind == AttentionKind::kLfk;
}

// What Trainer::step does with a batch, without the reading of it.
class OurStep {
 public:
  explicit OurStep(std::shared_ptr<Decoder> model)
      : model_(std::move(model)), optimizer_(trained_parameters(*model_), {}) {}

  double operator()(const at::Tensor& ids, const at::Tensor& targets) {
    const ops::CrossEntropy entropy = model_->loss(model_->forward(ids), targets);
    const at::Tensor mean = entropy.mean();
    mean.backward();
    optimizer_.step(kRate, clip_scale(gradient_norm(optimizer_.parameters()), kGradientClip));
    clear_gradients(optimizer_.parameters());
    return mean.item<double>();
  }

 private:
  std::shared_ptr<Decoder> model_;
  Optimizer optimizer_;
};

struct TrainRow {
  std::string kind;
  std::int64_t length, batch;
  Timing ours, rival;

  double rate(const Timing& timing) const {
    return static_cast<double>(length * batch) / timing.seconds;
  }
  double ratio() const { return rival.seconds / ours.seconds; }
};

TrainRow measure_steps(const BenchOptions& options, const std::string& name, std::int64_t length) {
  const AttentionKind kind = *find_attention_kind(name);  // one of the choices
  const std::int64_t batch = std::max<std::int64_t>(1, options.tokens / length);
  const ModelConfig config = million(options, kind, length);
  const auto model = std::make_shared<Decoder>(config, initial_weights(1, 0.02));
  const at::Tensor ids = at::randint(config.vocab_size, {batch, length}, at::kLong),
                   targets = at::randint(config.vocab_size, {batch, length}, at::kLong);
  TrainRow row{name, length, batch, {}, {}};
  std::unique_ptr<PlainGemma> rival;
  if (has_rival(kind)) {
    rival = std::make_unique<PlainGemma>(*model);
  }
  OurStep step(model);
  const auto ours = [&] { return step(ids, targets); };
  const auto theirs = [&] { return rival->step(ids, targets, kRate, {}, kGradientClip); };
  if (!rival) {
    row.ours = time_runs(ours);
    return row;
  }
  for (int i = 0; i < 2; ++i) {  // the second loss sees the first one's gradients too
    const double got = ours(), want = theirs();
    require(std::abs(got - want) < 1e-4 * want, "bench train: with ", name,
            " attention the loss is ", got, ", the rival's ", want);
  }
  const std::vector<Timing> timings = time_in_turn({ours, theirs});
  row.ours = timings[0], row.rival = timings[1];
  return row;
}

void print_train_head(const BenchOptions& options, std::ostream& out) {
  const ModelConfig config = million(options, AttentionKind::kExact, 1);
  out << "Gemma 1 of " << parameter_count(config) << " parameters, "
      << count_text(options.features.front(), "feature")
      << "; whole steps (forward, backward, clipping, AdamW) of about "
      << count_text(options.tokens, "token") << ";\n"
      << count_text(threads(), "thread") << ", medians of " << clock_name()
      << "; rival: the same model in plain ATen calls";
  const std::string core = blas_core();
  out << (core.empty() ? "" : " (OpenBLAS core " + core + ")") << "\n"
      << "attention  context  batch    tokens/s spread   rival tokens/s spread   ratio\n";
}

void print(const TrainRow& row, std::ostream& out) {
  out << std::fixed << std::setprecision(0) << std::left << std::setw(9) << row.kind << std::right
      << std::setw(9) << row.length << std::setw(7) << row.batch << std::setw(12)
      << row.rate(row.ours) << std::setw(6) << 100 * row.ours.spread << "%";
  if (row.rival.measured()) {
    out << std::setw(17) << row.rate(row.rival) << std::setw(6) << 100 * row.rival.spread << "%"
        << std::setprecision(2) << std::setw(7) << row.ratio() << "x";
  } else {
    out << std::setw(17) << "-" << std::setw(7) << "-" << std::setw(8) << "-";
  }
  out << std::endl;
}

OrderedJson json_of(const TrainRow& row) {
  OrderedJson object;
  object["attention"] = row.kind, object["context"] = row.length, object["batch"] = row.batch;
  object["seconds"] = row.ours.seconds, object["spread"] = row.ours.spread,
  object["tokens_per_second"] = row.rate(row.ours);
  if (row.rival.measured()) {
    object["rival_seconds"] = row.rival.seconds, object["rival_spread"] = row.rival.spread,
    object["rival_tokens_per_second"] = row.rate(row.rival), object["ratio"] = row.ratio();
  }
  return object;
}

}  // namespace

void bench_train(const BenchOptions& options, Context& context) {
  const std::vector<std::int64_t> lengths =
      options.lengths.empty() ? std::vector<std::int64_t>{256, 1024, 4096} : options.lengths;
  OrderedJson rows = OrderedJson::array();
  if (!context.common.json) {
    print_train_head(options, context.out);
  }
  for (const std::int64_t length : lengths) {
    for (const std::string& kind : options.kinds) {
      context.stop_if_interrupted("stopped; the rows above are complete");
      const TrainRow row = measure_steps(options, kind, length);
      if (!context.common.json) {
        print(row, context.out);
      }
      rows.push_back(json_of(row));
    }
  }
  if (context.common.json) {
    OrderedJson result;
    result["threads"] = threads(), result["clock"] = clock_name(), result["blas"] = blas_core(),
    result["features"] = options.features.front(), result["rows"] = rows;
    context.print_json(result);
  }
}

}  // namespace darkformer
