// darkformer info: what a model folder holds, and what running it will cost.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/system_info.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/attention_text.h"
#include "darkformer/commands/command.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

struct InfoOptions {
  std::filesystem::path model;
  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
  }
};

struct Weights {
  std::int64_t parameters = 0;                // numbers, the tied head once
  std::int64_t bytes = 0;                     // as stored
  std::map<std::string, std::int64_t> types;  // numbers of each type
};

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

Weights count_weights(const Decoder& model) {
  Weights weights;
  const auto add = [&](const at::Tensor& tensor) {
    weights.parameters += tensor.numel();
    weights.bytes += static_cast<std::int64_t>(tensor.nbytes());
    weights.types[type_name(tensor.scalar_type())] += tensor.numel();
  };
  for (const at::Tensor& tensor : model.parameters()) {
    add(tensor);
  }
  for (const at::Tensor& tensor : model.buffers()) {
    add(tensor);
  }
  return weights;
}

// What decoding keeps: a part that grows with every token, and one that does not.
struct StateCost {
  std::int64_t per_token = 0;
  std::int64_t constant = 0;
};

StateCost state_cost(const Decoder& model) {
  constexpr std::int64_t kLong = std::int64_t{1} << 30;  // beyond every sliding window
  const std::int64_t per_token = model.state_bytes(kLong + 1) - model.state_bytes(kLong);
  return {per_token, model.state_bytes(kLong) - per_token * kLong};
}

std::string layer_text(const ModelConfig& config, std::int64_t layer) {
  const AttentionSpec& spec = config.attention[static_cast<std::size_t>(layer)];
  const std::int64_t window = config.window(layer);
  if (spec.kind != AttentionKind::kExact) {
    return attention_text(spec);
  }
  return window > 0 ? concat("exact, sliding window ", window) : "exact, full";
}

// Neighbouring layers with the same attention share a line.
struct LayerRun {
  std::int64_t first, last;
  std::string attention;

  std::string range() const {
    return first == last ? concat("layer ", first) : concat("layers ", first, "-", last);
  }
};

std::vector<LayerRun> layer_runs(const ModelConfig& config) {
  std::vector<LayerRun> runs;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string text = layer_text(config, i);
    if (!runs.empty() && runs.back().attention == text) {
      runs.back().last = i;
    } else {
      runs.push_back({i, i, text});
    }
  }
  return runs;
}

std::string types_text(const Weights& weights) {
  std::string text;
  for (const auto& [type, count] : weights.types) {
    text += (text.empty() ? "" : ", ") + type +
            (weights.types.size() > 1 ? concat(" (", quantity_text(static_cast<double>(count)), ")")
                                      : "");
  }
  return text;
}

OrderedJson as_json(const ModelConfig& config, const Weights& weights, const StateCost& state) {
  OrderedJson attention = OrderedJson::array();
  for (std::int64_t i = 0; i < config.layers; ++i) {
    OrderedJson layer = attention_spec_json(config.attention[i]);
    layer["sliding_window"] = config.window(i);
    attention.push_back(std::move(layer));
  }
  return {{"model_type", config.parts().model_type},
          {"converted", config.is_converted()},
          {"layers", config.layers},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"vocab_size", config.vocab_size},
          {"max_positions", config.max_positions},
          {"parameters", weights.parameters},
          {"weight_bytes", weights.bytes},
          {"weight_types", weights.types},
          {"state_bytes_per_token", state.per_token},
          {"state_bytes_constant", state.constant},
          {"attention", std::move(attention)}};
}

void print(const ModelConfig& config,
           const Weights& weights,
           const StateCost& state,
           std::ostream& out) {
  out << "model       " << config.parts().model_type
      << (config.is_converted() ? ", converted by darkformer" : "") << "\n"
      << "parameters  " << weights.parameters << " ("
      << quantity_text(static_cast<double>(weights.parameters)) << "), " << types_text(weights)
      << ", " << bytes_text(weights.bytes) << "\n"
      << "shape       " << count_text(config.layers, "layer") << ", hidden " << config.hidden_size
      << ", feed-forward " << config.intermediate_size << ", vocabulary " << config.vocab_size
      << "\n"
      << "heads       " << config.heads << " query, " << config.kv_heads << " key/value, size "
      << config.head_dim << "\n"
      << "positions   " << config.max_positions << "\n"
      << "state       " << bytes_text(state.per_token) << " for each token and "
      << bytes_text(state.constant) << " once\n";
  for (const LayerRun& run : layer_runs(config)) {
    out << "attention   " << run.range() << ": " << run.attention << "\n";
  }
}

void info(const InfoOptions& options, Context& context) {
  const auto model = load_model(options.model);
  const ModelConfig& config = model->config();
  const Weights weights = count_weights(*model);
  if (context.common.json) {
    context.print_json(as_json(config, weights, state_cost(*model)));
  } else {
    print(config, weights, state_cost(*model), context.out);
  }
}

}  // namespace

Command info_command() {
  return make_command<InfoOptions>(
      {.name = "info",
       .summary = "Show what a model folder holds and what running it costs",
       .example = "darkformer info gemma-2b",
       .details = "Reads the headers of the weights, not the weights: as fast for a large model as "
                  "for a small one."},
      info);
}

}  // namespace darkformer
