// Writes config.json: the text it came from with what has changed, or a whole one.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/model_config.h"
#include "darkformer/model/model_config_keys.h"
#include "darkformer/model/rope_json.h"

namespace darkformer {
namespace {

using config_keys::has_object;
using config_keys::kConverted;
using config_keys::kFormatVersion;
using config_keys::kFullName;
using config_keys::kSection;
using config_keys::kSlidingName;

OrderedJson id_json(std::int64_t id) {
  return id < 0 ? OrderedJson(nullptr) : OrderedJson(id);
}

OrderedJson ids_json(const std::vector<std::int64_t>& ids) {
  return ids.empty()       ? OrderedJson(nullptr)
         : ids.size() == 1 ? OrderedJson(ids[0])
                           : OrderedJson(ids);
}

OrderedJson softcap_json(double cap) {
  return cap > 0 ? OrderedJson(cap) : OrderedJson(nullptr);
}

OrderedJson rope_with_base(const RopeSpec& rope) {
  OrderedJson json = rope_spec_json(rope);
  json["rope_theta"] = rope.base;
  return json;
}

bool is_default(const RopeSpec& rope) {
  return rope.kind == RopeKind::kDefault;
}

// Under the names of transformers 4, where they can say it.
void put_rope(const ModelConfig& config, OrderedJson& fields) {
  const bool two = config.family == Family::kGemma3 || config.family == Family::kGemma4;
  if (config.family == Family::kGemma4 || (two && !is_default(config.rope_sliding))) {
    fields["rope_parameters"] = {{kFullName, rope_with_base(config.rope_full)},
                                 {kSlidingName, rope_with_base(config.rope_sliding)}};
    return;
  }
  fields["rope_theta"] = config.rope_full.base;
  fields["rope_scaling"] =
      is_default(config.rope_full) ? OrderedJson(nullptr) : rope_spec_json(config.rope_full);
  if (two) {
    fields["rope_local_base_freq"] = config.rope_sliding.base;
  }
}

// What Gemma 4 has besides.
void put_gemma4(const ModelConfig& config, OrderedJson& fields) {
  fields["global_head_dim"] =
      config.full_head_dim > 0 ? OrderedJson(config.full_head_dim) : OrderedJson(nullptr);
  fields["attention_k_eq_v"] = config.keys_are_values;
  fields["num_global_key_value_heads"] =
      config.full_kv_heads > 0 ? OrderedJson(config.full_kv_heads) : OrderedJson(nullptr);
  fields["num_kv_shared_layers"] = config.shared_layers;
  fields["use_double_wide_mlp"] = config.wide_shared_layers;
  fields["hidden_size_per_layer_input"] = config.per_layer_size;
  fields["vocab_size_per_layer_input"] = config.per_layer_vocab;
}

void put_layer_kinds(const ModelConfig& config, OrderedJson& fields) {
  fields["layer_types"] = OrderedJson::array();
  for (const LayerKind kind : config.layer_kinds) {
    fields["layer_types"].push_back(kind == LayerKind::kSliding ? kSlidingName : kFullName);
  }
  if (config.family != Family::kGemma3) {
    return;
  }
  for (std::int64_t pattern = 1; pattern <= config.layers + 1; ++pattern) {
    if (default_layer_kinds(config.family, config.layers, pattern) == config.layer_kinds) {
      fields["sliding_window_pattern"] = pattern;  // for versions that know no layer_types
      return;
    }
  }
}

void put_later_gemma(const ModelConfig& config, OrderedJson& fields) {
  if (config.family == Family::kGemma4) {
    put_gemma4(config, fields);
  } else {
    fields["query_pre_attn_scalar"] = config.query_pre_attn_scalar;
    fields["attn_logit_softcapping"] = softcap_json(config.attn_softcap);
  }
  fields["final_logit_softcapping"] = softcap_json(config.final_softcap);
  fields["sliding_window"] = config.sliding_window;
  put_layer_kinds(config, fields);
}

// What a config.json of the family says of this config, under the names of transformers 4.
OrderedJson known_fields(const ModelConfig& config) {
  OrderedJson fields;
  fields["hidden_size"] = config.hidden_size;
  fields["intermediate_size"] = config.intermediate_size;
  fields["num_hidden_layers"] = config.layers;
  fields["num_attention_heads"] = config.heads;
  fields["num_key_value_heads"] = config.kv_heads;
  fields["head_dim"] = config.head_dim;
  fields["vocab_size"] = config.vocab_size;
  fields["max_position_embeddings"] = config.max_positions;
  fields["rms_norm_eps"] = config.rms_norm_eps;
  put_rope(config, fields);
  const bool biased = config.family != Family::kMistral && config.family != Family::kQwen2;
  if (biased) {
    fields["attention_bias"] = config.qkv_bias;
  }
  switch (config.family) {
    case Family::kGemma1:
      break;
    case Family::kLlama:
      fields["mlp_bias"] = config.mlp_bias;
      break;
    case Family::kMistral:
      fields["sliding_window"] =
          config.sliding_window > 0 ? OrderedJson(config.sliding_window) : OrderedJson(nullptr);
      break;
    case Family::kQwen2:
    case Family::kQwen3:
      fields["use_sliding_window"] = config.sliding_window > 0;
      fields["sliding_window"] =
          config.sliding_window > 0 ? OrderedJson(config.sliding_window) : OrderedJson(nullptr);
      put_layer_kinds(config, fields);
      break;
    default:
      put_later_gemma(config, fields);
  }
  return fields;
}

// Keys that stand outside text_config.
OrderedJson outer_fields(const ModelConfig& config) {
  OrderedJson fields;
  fields["bos_token_id"] = id_json(config.bos_id);
  fields["eos_token_id"] = ids_json(config.eos_ids);
  fields["pad_token_id"] = id_json(config.pad_id);
  fields["tie_word_embeddings"] = config.tied_head;
  fields["torch_dtype"] = config.dtype;
  return fields;
}

// target <- what differs between the two
void put_changes(const OrderedJson& before, const OrderedJson& after, OrderedJson& target) {
  for (const auto& [key, value] : after.items()) {
    if (before.contains(key) && before.at(key) == value) {
      continue;
    }
    if (key.starts_with("rope_")) {
      target.erase("rope_parameters");  // it would be read instead
    }
    const bool newer = key == "torch_dtype" && target.contains("dtype");
    target[newer ? "dtype" : key] = value;
  }
}

OrderedJson fresh_document(const ModelConfig& config) {
  OrderedJson document;
  document["architectures"] = config.architectures;
  document["attention_dropout"] = 0.0;
  document["model_type"] = config.parts().model_type;
  const char* activation =
      config.activation == Activation::kGeluTanh ? "gelu_pytorch_tanh" : "silu";
  if (config.parts().scales_embedding) {
    document["hidden_activation"] = activation;
  }
  if (config.family == Family::kGemma1 || !config.parts().scales_embedding) {
    document["hidden_act"] = activation;
  }
  put_changes(OrderedJson::object(), known_fields(config), document);
  put_changes(OrderedJson::object(), outer_fields(config), document);
  return document;
}

OrderedJson changed_document(const ModelConfig& config) {
  const std::string source = "config.json";
  OrderedJson document = parse_ordered_json(config.source.text, source);
  const ModelConfig before = parse_model_config(config.source.text, source);
  require(before.family == config.family, source, ": the family of a model cannot change");
  OrderedJson& text = has_object(document, "text_config") ? document["text_config"] : document;
  put_changes(known_fields(before), known_fields(config), text);
  put_changes(outer_fields(before), outer_fields(config), document);
  if (before.is_converted() || before.architectures != config.architectures) {
    document["architectures"] = config.architectures;
  }
  document.erase(kSection);
  return document;
}

OrderedJson conversion_json(const ModelConfig& config) {
  OrderedJson section;
  section["format_version"] = kFormatVersion;
  section["base_architectures"] = config.architectures;
  section["layers"] = OrderedJson::array();
  for (const AttentionSpec& spec : config.attention) {
    section["layers"].push_back(attention_spec_json(spec));
  }
  section["seed"] = config.seed;
  section["draw_index"] = config.draw_index;
  return section;
}

}  // namespace

std::string model_config_text(const ModelConfig& config) {
  check_model_config(config, "config");
  OrderedJson document =
      config.source.text.empty() ? fresh_document(config) : changed_document(config);
  if (config.is_converted()) {
    document["architectures"] = {kConverted};
    document[kSection] = conversion_json(config);
  }
  return document.dump(2) + "\n";
}

void write_model_config(const std::filesystem::path& file, const ModelConfig& config) {
  write_file_atomically(file, model_config_text(config));
}

}  // namespace darkformer
