// Reads config.json in all the spellings that Hugging Face's versions have used.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/base/printable.h"
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

constexpr std::size_t kLongestFile = std::size_t{16} << 20;

std::vector<std::string> read_strings(const OrderedJson& object,
                                      const char* key,
                                      const std::string& source) {
  std::vector<std::string> strings;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return strings;
  }
  require(found->is_array(), source, ": \"", key, "\" must be a list of strings");
  for (const OrderedJson& value : *found) {
    require(value.is_string(), source, ": \"", key, "\" must be a list of strings");
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

class ConfigReader {
 public:
  ConfigReader(const OrderedJson& document, const std::string& source)
      : document_(document), source_(source) {
    require(document.is_object(), source, ": must be a JSON object");
    read_family();
  }

  ModelConfig read() {
    refuse_unsupported();
    read_sizes();
    read_softcaps();
    read_layer_kinds();
    read_rope();
    read_ids();
    config_.architectures = read_strings(document_, "architectures", source_);
    if (config_.architectures.empty()) {
      config_.architectures = default_model_config(config_.family).architectures;
    }
    read_conversion();
    check_model_config(config_, source_);
    return std::move(config_);
  }

 private:
  // model_type "gemma3" nests the language model; its own keys are a Gemma3TextConfig's.
  void read_family() {
    const auto type = get_value<std::string>(document_, "model_type", source_);
    static const OrderedJson nothing = OrderedJson::object();
    text_ = &document_;
    if (type == "gemma3") {
      text_ = has_object(document_, "text_config") ? &document_["text_config"] : &nothing;
      const auto inner = find_value<std::string>(*text_, "model_type", source_);
      require(inner.value_or("gemma3_text") == "gemma3_text", source_,
              ": \"text_config.model_type\" is ", printable(inner.value_or("")),
              "; wanted gemma3_text");
    }
    const Family family = type == "gemma"    ? Family::kGemma1
                          : type == "gemma2" ? Family::kGemma2
                                             : Family::kGemma3;
    require(family != Family::kGemma3 || type == "gemma3" || type == "gemma3_text", source_,
            ": \"model_type\" is ", printable(type),
            "; wanted gemma, gemma2, gemma3_text or gemma3");
    config_ = default_model_config(family);
  }

  template <class Value>
  Value field(const char* key, Value fallback) const {
    return find_value<Value>(*text_, key, source_).value_or(fallback);
  }
  // Keys that newer files keep outside text_config.
  const OrderedJson& holder(const char* key) const {
    return document_.contains(key) ? document_ : *text_;
  }

  void refuse_unsupported() const {
    const auto& holder_of_direction = holder("use_bidirectional_attention");
    const auto direction = holder_of_direction.find("use_bidirectional_attention");
    const bool causal = direction == holder_of_direction.end() || direction->is_null() ||
                        *direction == false || *direction == "vision";
    require(causal, source_, ": \"use_bidirectional_attention\" is set; only causal models work");
    require(!field("attention_bias", false), source_,
            ": \"attention_bias\" is true; no Gemma has it");
    require(find_value<bool>(holder("tie_word_embeddings"), "tie_word_embeddings", source_)
                .value_or(true),
            source_, ": \"tie_word_embeddings\" is false; Gemma's head is its embedding");
    const auto activation =
        find_value<std::string>(*text_, "hidden_activation", source_).value_or("gelu_pytorch_tanh");
    // Old files of Gemma 1 say "gelu" and mean the tanh form all the same.
    const bool gelu = activation == "gelu_pytorch_tanh" ||
                      (activation == "gelu" && config_.family == Family::kGemma1);
    require(gelu, source_, ": \"hidden_activation\" is ", printable(activation),
            "; wanted gelu_pytorch_tanh");
  }

  void read_sizes() {
    config_.vocab_size = field("vocab_size", config_.vocab_size);
    config_.hidden_size = field("hidden_size", config_.hidden_size);
    config_.intermediate_size = field("intermediate_size", config_.intermediate_size);
    config_.layers = field("num_hidden_layers", config_.layers);
    config_.heads = field("num_attention_heads", config_.heads);
    config_.kv_heads = field("num_key_value_heads", config_.kv_heads);
    config_.head_dim = field("head_dim", config_.head_dim);
    config_.max_positions = field("max_position_embeddings", config_.max_positions);
    config_.rms_norm_eps = field("rms_norm_eps", config_.rms_norm_eps);
    if (config_.family == Family::kGemma1) {
      config_.query_pre_attn_scalar = static_cast<double>(config_.head_dim);
    } else {
      config_.query_pre_attn_scalar = field("query_pre_attn_scalar", config_.query_pre_attn_scalar);
      config_.sliding_window = field("sliding_window", config_.sliding_window);
    }
    for (const char* key : {"torch_dtype", "dtype"}) {
      config_.dtype = find_value<std::string>(holder(key), key, source_).value_or(config_.dtype);
    }
  }

  // Here null is not the same as missing: it switches the cap off.
  double softcap(const char* key, double fallback) const {
    const auto found = text_->find(key);
    if (found != text_->end() && found->is_null()) {
      return 0;
    }
    const double value = field(key, fallback);
    require(value > 0 || found == text_->end(), source_, ": \"", key, "\" is ", value,
            "; wanted a number above 0, or null for none");
    return value;
  }
  void read_softcaps() {
    if (config_.family != Family::kGemma1) {
      config_.attn_softcap = softcap("attn_logit_softcapping", config_.attn_softcap);
      config_.final_softcap = softcap("final_logit_softcapping", config_.final_softcap);
    }
  }

  void read_layer_kinds() {
    config_.layer_kinds.clear();
    config_.attention.clear();
    if (config_.layers < 1 || config_.layers > kMostLayers) {
      return;  // check_model_config says so, before anything is sized by it
    }
    config_.attention.resize(config_.layers);
    const auto names = read_strings(*text_, "layer_types", source_);
    if (names.empty() || config_.family == Family::kGemma1) {
      config_.layer_kinds = default_layer_kinds(config_.family, config_.layers, read_pattern());
      return;
    }
    for (const std::string& name : names) {
      require(name == kSlidingName || name == kFullName, source_, ": \"layer_types\" holds ",
              printable(name), "; wanted ", kSlidingName, " or ", kFullName);
      config_.layer_kinds.push_back(name == kSlidingName ? LayerKind::kSliding : LayerKind::kFull);
    }
  }

  std::int64_t read_pattern() const {
    if (config_.family != Family::kGemma3) {
      return kGemma2Pattern;
    }
    std::int64_t pattern = kGemma3Pattern;
    for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
      pattern = field(key, pattern);
      require(pattern >= 1, source_, ": \"", key, "\" is ", pattern, "; wanted 1 or more");
    }
    return pattern;
  }

  // {"rope_type" or "type": "linear", "factor": 8}, and in rope_parameters also "rope_theta".
  RopeSpec rope_from(const OrderedJson& object, RopeSpec fallback) const {
    RopeSpec rope = fallback;
    const auto named = find_value<std::string>(object, "rope_type", source_);
    const auto type =
        named ? *named : find_value<std::string>(object, "type", source_).value_or("default");
    require(type == "linear" || type == "default", source_, ": rope_type is ", printable(type),
            "; wanted linear or default");
    rope.base = find_value<double>(object, "rope_theta", source_).value_or(rope.base);
    rope.factor = type == "linear" ? get_value<double>(object, "factor", source_) : 1;
    return rope;
  }

  void read_rope() {
    RopeSpec full{field("rope_theta", config_.rope_full.base), 1};
    RopeSpec sliding{field("rope_local_base_freq", config_.rope_sliding.base), 1};
    if (has_object(*text_, "rope_scaling")) {
      full = rope_from((*text_)["rope_scaling"], full);
    }
    if (has_object(*text_, "rope_parameters")) {
      const OrderedJson& both = (*text_)["rope_parameters"];
      const bool nested = has_object(both, kFullName) || has_object(both, kSlidingName);
      if (!nested) {
        full = rope_from(both, full);
      }
      if (has_object(both, kFullName)) {
        full = rope_from(both[kFullName], full);
      }
      if (has_object(both, kSlidingName)) {
        sliding = rope_from(both[kSlidingName], sliding);
      }
    }
    config_.rope_full = full;
    config_.rope_sliding = config_.family == Family::kGemma3 ? sliding : full;
  }

  void read_ids() {
    config_.bos_id = find_value<std::int64_t>(holder("bos_token_id"), "bos_token_id", source_)
                         .value_or(config_.bos_id);
    const OrderedJson& pads = holder("pad_token_id");
    const bool no_pad = pads.contains("pad_token_id") && pads["pad_token_id"].is_null();
    config_.pad_id =
        no_pad ? -1
               : find_value<std::int64_t>(pads, "pad_token_id", source_).value_or(config_.pad_id);
    const OrderedJson& ends = holder("eos_token_id");
    const auto eos = ends.find("eos_token_id");
    if (eos != ends.end() && eos->is_array()) {
      config_.eos_ids.clear();
      for (const OrderedJson& id : *eos) {
        require(id.is_number_integer(), source_, ": \"eos_token_id\" must hold whole numbers");
        config_.eos_ids.push_back(id.get<std::int64_t>());
      }
    } else if (const auto id = find_value<std::int64_t>(ends, "eos_token_id", source_)) {
      config_.eos_ids = {*id};
    }
  }

  void read_conversion() {
    const auto section = document_.find(kSection);
    const auto& names = config_.architectures;
    const bool named = std::find(names.begin(), names.end(), kConverted) != names.end();
    require(!named || section != document_.end(), source_, ": the architecture is ", kConverted,
            ", but there is no \"", kSection, "\" section");
    if (section == document_.end()) {
      return;
    }
    const std::string where = source_ + ": " + kSection;
    require(section->is_object(), where, ": must be an object");
    const auto version = get_value<std::int64_t>(*section, "format_version", where);
    require(version <= kFormatVersion, where, ": format_version is ", version,
            ", written by a newer darkformer; this one reads ", kFormatVersion, ": update it");
    require(version == kFormatVersion, where, ": format_version is ", version, "; wanted ",
            kFormatVersion);
    config_.architectures = read_strings(*section, "base_architectures", where);
    require(!config_.architectures.empty(), where, ": \"base_architectures\" is missing");
    read_converted_layers(*section, where);
    const auto seed = section->find("seed");
    require(seed == section->end() || seed->is_number_unsigned(), where,
            ": \"seed\" must be a whole number, 0 or more");
    config_.seed = seed == section->end() ? 0 : seed->get<std::uint64_t>();
    config_.draw_index = find_value<std::int64_t>(*section, "draw_index", where).value_or(0);
    require(config_.draw_index >= 0, where, ": \"draw_index\" is ", config_.draw_index);
  }

  void read_converted_layers(const OrderedJson& section, const std::string& where) {
    const auto layers = section.find("layers");
    require(layers != section.end() && layers->is_array(), where, ": \"layers\" must be a list");
    require(layers->size() == config_.attention.size(), where, ": \"layers\" has ", layers->size(),
            " entries, the model has ", config_.layers, " layers");
    for (std::size_t i = 0; i < layers->size(); ++i) {
      config_.attention[i] = read_attention_spec((*layers)[i], config_.head_dim,
                                                 where + ".layers[" + std::to_string(i) + "]");
    }
  }

  const OrderedJson& document_;
  const std::string& source_;
  const OrderedJson* text_ = nullptr;
  ModelConfig config_;
};

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& source) {
  require(text.size() <= kLongestFile, source, ": ", text.size(),
          " bytes are too many for a config");
  const OrderedJson document = parse_ordered_json(text, source);
  ModelConfig config = ConfigReader(document, source).read();
  config.source.text = text;
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& file) {
  return parse_model_config(MappedFile(file).text(), file.string());
}

}  // namespace darkformer
