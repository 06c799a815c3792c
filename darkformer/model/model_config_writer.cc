// Writes config.json: the text it came from with what has changed, or a whole one.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/model_config.h"
#include "darkformer/model/model_config_keys.h"

namespace darkformer {
namespace {

using config_keys::has_object;
using config_keys::kConverted;
using config_keys::kFormatVersion;
using config_keys::kFullName;
using config_keys::kSection;
using config_keys::kSlidingName;

OrderedJson ids_json(const std::vector<std::int64_t>& ids) {
  return ids.size() == 1 ? OrderedJson(ids[0]) : OrderedJson(ids);
}

OrderedJson softcap_json(double cap) {
  return cap > 0 ? OrderedJson(cap) : OrderedJson(nullptr);
}

OrderedJson rope_json(const RopeSpec& rope) {
  OrderedJson json;
  json["rope_type"] = rope.factor == 1 ? "default" : "linear";
  json["rope_theta"] = rope.base;
  if (rope.factor != 1) {
    json["factor"] = rope.factor;
  }
  return json;
}

void put_rope(const ModelConfig& config, OrderedJson& fields) {
  fields["rope_theta"] = config.rope_full.base;
  fields["rope_scaling"] = nullptr;
  if (config.rope_full.factor != 1) {
    fields["rope_scaling"] = {{"factor", config.rope_full.factor}, {"rope_type", "linear"}};
  }
  if (config.family == Family::kGemma3) {
    fields["rope_local_base_freq"] = config.rope_sliding.base;
  }
  if (config.rope_sliding.factor != config.rope_full.factor && config.rope_sliding.factor != 1) {
    fields["rope_parameters"] = {{kFullName, rope_json(config.rope_full)},
                                 {kSlidingName, rope_json(config.rope_sliding)}};
  }
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
  if (config.family != Family::kGemma1) {
    fields["query_pre_attn_scalar"] = config.query_pre_attn_scalar;
    fields["attn_logit_softcapping"] = softcap_json(config.attn_softcap);
    fields["final_logit_softcapping"] = softcap_json(config.final_softcap);
    fields["sliding_window"] = config.sliding_window;
    put_layer_kinds(config, fields);
  }
  return fields;
}

// Keys that stand outside text_config.
OrderedJson outer_fields(const ModelConfig& config) {
  OrderedJson fields;
  fields["bos_token_id"] = config.bos_id;
  fields["eos_token_id"] = ids_json(config.eos_ids);
  fields["pad_token_id"] = config.pad_id < 0 ? OrderedJson(nullptr) : OrderedJson(config.pad_id);
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
  document["attention_bias"] = false;
  document["attention_dropout"] = 0.0;
  document["model_type"] = model_type_of(config.family);
  document["hidden_activation"] = "gelu_pytorch_tanh";
  if (config.family == Family::kGemma1) {
    document["hidden_act"] = "gelu_pytorch_tanh";
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
