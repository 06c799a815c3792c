// Tensor names and shapes of Gemma models.
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

std::int64_t parameter_sets(const ModelConfig& config, Placement placement) {
  return placement == Placement::kKvHead      ? config.kv_heads
         : placement == Placement::kQueryHead ? config.heads
                                              : 1;
}

void add_layer(const ModelConfig& config,
               std::int64_t layer,
               std::vector<ExpectedTensor>& tensors) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    tensors.push_back({prefix + name + ".weight", std::move(shape)});
  };
  const std::int64_t E = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  add("input_layernorm", {E});
  add("self_attn.q_proj", {config.query_width(), E});
  add("self_attn.k_proj", {config.kv_width(), E});
  add("self_attn.v_proj", {config.kv_width(), E});
  add("self_attn.o_proj", {E, config.query_width()});
  if (config.has_qk_norm()) {
    add("self_attn.q_norm", {config.head_dim});
    add("self_attn.k_norm", {config.head_dim});
  }
  add("post_attention_layernorm", {E});
  if (config.has_post_norms()) {
    add("pre_feedforward_layernorm", {E});
    add("post_feedforward_layernorm", {E});
  }
  add("mlp.gate_proj", {inner, E});
  add("mlp.up_proj", {inner, E});
  add("mlp.down_proj", {E, inner});
}

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
bool is_ignored(std::string_view stored) {
  constexpr std::array<std::string_view, 4> kOthers = {"vision_tower.", "multi_modal_projector.",
                                                       "model.vision_tower.",
                                                       "model.multi_modal_projector."};
  return stored.ends_with(".rotary_emb.inv_freq") ||
         std::any_of(kOthers.begin(), kOthers.end(),
                     [&](std::string_view prefix) { return stored.starts_with(prefix); });
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
            "' is not the embedding; Gemma's head is tied to it");
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
  const std::int64_t sets = parameter_sets(config, spec.placement);
  const std::int64_t F = spec.features;
  const std::int64_t R = spec.rank;
  const std::int64_t D = config.head_dim;
  add(true, "draws", {sets, F, R});
  add(has_factor(spec.kind), "factor", {sets, R, D});
  add(has_key_factor(spec.kind), "key_factor", {sets, R, D});
  add(has_log_weights(spec.kind), "log_weights", {sets, F});
  add(spec.centre, "query_center", {sets, D});
  add(spec.centre, "key_center", {config.kv_heads, D});
  add(spec.gate, "gate_scale", {config.heads});
  add(spec.gate, "gate_bias", {config.heads});
  add(spec.gate, "gate_weight", {config.heads, R});
  return tensors;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> tensors;
  tensors.push_back({std::string(kEmbedding), {config.vocab_size, config.hidden_size}});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    add_layer(config, i, tensors);
  }
  tensors.push_back({"model.norm.weight", {config.hidden_size}});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto dark = dark_tensors(config, i);
    tensors.insert(tensors.end(), dark.begin(), dark.end());
  }
  return tensors;
}

std::string stored_name(std::string_view name, NameStyle style) {
  const std::string_view rest = name.starts_with(kModel) ? name.substr(kModel.size()) : name;
  return std::string(kPrefixes[static_cast<std::size_t>(style)]).append(rest);
}

std::optional<std::string> canonical_name(std::string_view stored, NameStyle style) {
  const std::string_view prefix = kPrefixes[static_cast<std::size_t>(style)];
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
    } else if (!is_ignored(name)) {
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
