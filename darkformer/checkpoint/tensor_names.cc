// Tensor names and shapes of models.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/tensor_names.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/model/model_config.h"

namespace darkformer {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

// Indexed by NameStyle: what stands for kModel.
constexpr std::array<std::string_view, 3> kPrefixes = {"model.", "language_model.model.",
                                                       "model.language_model."};

std::int64_t parameter_sets(const ModelConfig& config, std::int64_t layer, Placement placement) {
  return placement == Placement::kKvHead      ? config.kv_heads_of(layer)
         : placement == Placement::kQueryHead ? config.heads
                                              : 1;
}

// Names a layer's tensors, one after the other.
class LayerTensors {
 public:
  LayerTensors(const ModelConfig& config, std::int64_t layer, std::vector<ExpectedTensor>& tensors)
      : config_(config),
        layer_(layer),
        prefix_("model.layers." + std::to_string(layer) + "."),
        tensors_(tensors) {}

  void add_all() {
    const std::int64_t E = config_.hidden_size, inner = config_.intermediate_of(layer_);
    add("input_layernorm.weight", {E});
    add_attention();
    add("post_attention_layernorm.weight", {E});
    if (config_.parts().post_norms) {
      add("pre_feedforward_layernorm.weight", {E});
      add("post_feedforward_layernorm.weight", {E});
    }
    projection("mlp.gate_proj", inner, E, config_.mlp_bias);
    projection("mlp.up_proj", inner, E, config_.mlp_bias);
    projection("mlp.down_proj", E, inner, config_.mlp_bias);
    if (const std::int64_t P = config_.per_layer_size; P > 0) {
      projection("per_layer_input_gate", P, E);
      projection("per_layer_projection", E, P);
      add("post_per_layer_input_norm.weight", {E});
    }
    if (config_.parts().layer_scalar) {
      add("layer_scalar", {1});
    }
  }

 private:
  void add_attention() {
    const std::int64_t E = config_.hidden_size, Q = config_.query_width(layer_),
                       K = config_.kv_width(layer_), D = config_.head_dim_of(layer_);
    const bool owns = config_.owns_keys(layer_), norms = config_.parts().qk_norm;
    projection("self_attn.q_proj", Q, E, config_.qkv_bias);
    if (owns) {
      projection("self_attn.k_proj", K, E, config_.qkv_bias);
    }
    if (owns && !config_.values_are_keys(layer_)) {
      projection("self_attn.v_proj", K, E, config_.qkv_bias);
    }
    projection("self_attn.o_proj", E, Q, config_.output_bias);
    if (norms) {
      add("self_attn.q_norm.weight", {D});
    }
    if (norms && owns) {
      add("self_attn.k_norm.weight", {D});
    }
  }

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    tensors_.push_back({prefix_ + name, std::move(shape)});
  }
  void projection(const std::string& name, std::int64_t out, std::int64_t in, bool biased = false) {
    add(name + ".weight", {out, in});
    if (biased) {
      add(name + ".bias", {out});
    }
  }

  const ModelConfig& config_;
  std::int64_t layer_;
  std::string prefix_;
  std::vector<ExpectedTensor>& tensors_;
};

NameStyle find_style(const WeightFiles& files) {
  for (const NameStyle style : {NameStyle::kLanguageModel, NameStyle::kModelLanguageModel}) {
    if (files.find(stored_name(kEmbedding, style)) != nullptr) {
      return style;
    }
  }
  return NameStyle::kPlain;
}

bool is_head(std::string_view stored) {
  return stored == kHead || stored == "language_model.lm_head.weight";
}

// Parts of multimodal files that are no language model, and tables that old files carry along.
bool is_foreign(std::string_view stored) {
  constexpr std::array<std::string_view, 5> kOthers = {
      "vision_tower.", "multi_modal_projector.", "audio_tower.", "embed_vision.", "embed_audio."};
  const std::string_view inner = stored.starts_with(kModel) ? stored.substr(kModel.size()) : stored;
  return stored.ends_with(".rotary_emb.inv_freq") ||
         std::any_of(kOthers.begin(), kOthers.end(),
                     [&](std::string_view prefix) { return inner.starts_with(prefix); });
}

// Files of Gemma 4 may carry keys and values for layers that use another's.
bool is_unused(const ModelConfig& config, const std::string& name) {
  for (std::int64_t i = config.layers - config.shared_layers; i < config.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".self_attn.";
    for (const char* part : {"k_proj.", "v_proj.", "k_norm.", "v_norm."}) {
      if (name.starts_with(prefix + part)) {
        return true;
      }
    }
  }
  return false;
}

// "3 missing (a, b, c)", the first few of a sort and their number.
struct Finding {
  const char* sort;
  std::vector<std::string> entries;

  std::string text() const {
    constexpr std::size_t kShown = 4;
    std::string out = std::to_string(entries.size()) + " " + sort + " (";
    for (std::size_t i = 0; i < std::min(entries.size(), kShown); ++i) {
      out += (i > 0 ? ", " : "") + entries[i];
    }
    return out + (entries.size() > kShown ? ", ...)" : ")");
  }
};

struct Findings {
  Finding missing{"missing", {}};
  Finding extra{"not of this model", {}};
  Finding misshapen{"of another shape", {}};
  Finding mistyped{"of another type", {}};

  void check_shape(const TensorView& tensor, const std::vector<std::int64_t>& wanted) {
    if (tensor.shape != wanted) {
      misshapen.entries.push_back(printable(tensor.name) + " is " + shape_text(tensor.shape) +
                                  ", wanted " + shape_text(wanted));
    }
  }
  void check_type(const TensorView& tensor, bool is_dark) {
    const bool real = tensor.dtype == DType::kF32 ||
                      (!is_dark && (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16));
    if (!real) {
      mistyped.entries.push_back(printable(tensor.name) + " is " +
                                 std::string(dtype_name(tensor.dtype)) + ", wanted " +
                                 (is_dark ? "F32" : "F32, BF16 or F16"));
    }
  }
  void report(const WeightFiles& files) const {
    std::string all;
    for (const Finding* finding : {&missing, &extra, &misshapen, &mistyped}) {
      if (!finding->entries.empty()) {
        all += (all.empty() ? "" : "; ") + finding->text();
      }
    }
    require(all.empty(), files.main_file().string(), ": tensors do not fit config.json: ", all);
  }
};

// A head that is stored although it is tied must be the embedding. Pages of both are compared, not
// all: an untied head differs everywhere.
void check_tied_head(const TensorView& head,
                     const TensorView& embedding,
                     const WeightFiles& files) {
  if (head.dtype != embedding.dtype || head.bytes != embedding.bytes) {
    return;
  }
  constexpr std::size_t kPages = 16;
  constexpr std::size_t kPage = 4096;
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::size_t begin = head.bytes / kPages * i;
    const std::size_t count = std::min(kPage, head.bytes - begin);
    require(std::memcmp(head.data + begin, embedding.data + begin, count) == 0,
            files.file_of(head.name), ": tensor '", printable(head.name),
            "' is not the embedding, but config.json says that they are tied");
  }
}

}  // namespace

std::vector<ExpectedTensor> dark_tensors(const ModelConfig& config, std::int64_t layer) {
  const AttentionSpec& spec = config.attention[layer];
  std::vector<ExpectedTensor> tensors;
  if (!has_features(spec.kind)) {
    return tensors;
  }
  const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.dark.";
  const auto add = [&](bool present, const char* name, std::vector<std::int64_t> shape) {
    if (present) {
      tensors.push_back({prefix + name, std::move(shape), true});
    }
  };
  const std::int64_t sets = parameter_sets(config, layer, spec.placement);
  const std::int64_t F = spec.features;
  const std::int64_t R = spec.rank;
  const std::int64_t D = config.head_dim_of(layer);
  const bool own = config.owns_keys(layer);
  const std::int64_t rows = factor_rows(spec);
  add(own && has_draws(spec.kind), "draws", {sets, F, R});
  add(own && has_factor(spec.kind), "factor", {sets, rows, D});
  add(own && has_key_factor(spec), "key_factor", {sets, rows, D});
  add(own && has_log_weights(spec.kind), "log_weights", {sets, F});
  add(own && spec.centre, "query_center", {sets, D});
  add(own && spec.centre, "key_center", {config.kv_heads_of(layer), D});
  add(spec.gate, "gate_scale", {config.heads});
  add(spec.gate, "gate_bias", {config.heads});
  add(spec.gate, "gate_weight", {config.heads, R});
  return tensors;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> tensors;
  const std::int64_t V = config.vocab_size, E = config.hidden_size, P = config.per_layer_size;
  tensors.push_back({std::string(kEmbedding), {V, E}});
  if (P > 0) {
    const std::int64_t all = config.layers * P;
    tensors.push_back({"model.embed_tokens_per_layer.weight", {config.per_layer_vocab, all}});
    tensors.push_back({"model.per_layer_model_projection.weight", {all, E}});
    tensors.push_back({"model.per_layer_projection_norm.weight", {P}});
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    LayerTensors(config, i, tensors).add_all();
  }
  tensors.push_back({"model.norm.weight", {E}});
  if (!config.tied_head) {
    tensors.push_back({std::string(kHead), {V, E}});
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto dark = dark_tensors(config, i);
    tensors.insert(tensors.end(), dark.begin(), dark.end());
  }
  return tensors;
}

std::string stored_name(std::string_view name, NameStyle style) {
  if (name == kHead) {
    return style == NameStyle::kLanguageModel ? "language_model.lm_head.weight"
                                              : std::string(kHead);
  }
  const std::string_view rest = name.starts_with(kModel) ? name.substr(kModel.size()) : name;
  return std::string(kPrefixes[static_cast<std::size_t>(style)]).append(rest);
}

std::optional<std::string> canonical_name(std::string_view stored, NameStyle style) {
  const std::string_view prefix = kPrefixes[static_cast<std::size_t>(style)];
  if (is_head(stored)) {
    return std::string(kHead);
  }
  if (!stored.starts_with(prefix)) {
    return std::nullopt;
  }
  return std::string(kModel).append(stored.substr(prefix.size()));
}

ModelTensors find_model_tensors(const ModelConfig& config, const WeightFiles& files) {
  ModelTensors result;
  result.style = find_style(files);
  Findings findings;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    const TensorView* tensor = files.find(stored_name(expected.name, result.style));
    if (tensor == nullptr) {
      findings.missing.entries.push_back(expected.name);
      continue;
    }
    findings.check_shape(*tensor, expected.shape);
    findings.check_type(*tensor, expected.is_dark);
    result.tensors.emplace(expected.name, tensor);
  }
  const TensorView* head = nullptr;
  for (const auto& [name, tensor] : files.tensors()) {
    const auto canonical = canonical_name(name, result.style);
    if (canonical && result.tensors.contains(*canonical)) {
      continue;
    }
    if (is_head(name)) {
      head = tensor;
      findings.check_shape(*tensor, {config.vocab_size, config.hidden_size});
    } else if (!is_foreign(name) && !(canonical && is_unused(config, *canonical))) {
      findings.extra.entries.push_back(printable(name));
      continue;
    }
    result.skipped.push_back(tensor);
  }
  findings.report(files);
  if (head != nullptr) {
    check_tied_head(*head, *result.tensors.find(kEmbedding)->second, files);
  }
  return result;
}

}  // namespace darkformer
