// Reads config.json in all the spellings that Hugging Face's versions have used.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/base/printable.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/field_checks.h"
#include "darkformer/model/model_config.h"
#include "darkformer/model/model_config_keys.h"
#include "darkformer/model/model_config_ropes.h"

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
    read_activation();
    read_head_and_biases();
    read_sizes();
    read_gemma4();
    read_softcaps();
    read_layer_kinds();
    read_ropes(*text_, source_, config_);
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
  // A multimodal model_type nests the language model; its own keys are that one's.
  void read_family() {
    const auto type = get_value<std::string>(document_, "model_type", source_);
    static const OrderedJson nothing = OrderedJson::object();
    text_ = &document_;
    for (const FamilyParts& parts : all_family_parts()) {
      if (type == parts.model_type) {
        config_ = default_model_config(parts.family);
        return;
      }
      if (type == parts.wrapped_type) {
        const bool nested = has_object(document_, "text_config");
        require(nested || !document_.contains("text_config") || document_["text_config"].is_null(),
                source_, ": \"text_config\" must be an object");
        text_ = nested ? &document_["text_config"] : &nothing;
        const auto inner = find_value<std::string>(*text_, "model_type", source_);
        require(inner.value_or(std::string(parts.model_type)) == parts.model_type, source_,
                ": \"text_config.model_type\" is ", printable(inner.value_or("")), "; wanted ",
                parts.model_type);
        config_ = default_model_config(parts.family);
        return;
      }
    }
    fail(source_, ": \"model_type\" is ", printable(type), ", which is not supported; wanted ",
         model_type_names());
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
    for (const char* key : {"enable_moe_block", "num_experts", "num_local_experts"}) {
      const auto found = text_->find(key);
      const bool absent =
          found == text_->end() || found->is_null() || *found == false || *found == 0;
      require(absent, source_, ": \"", key, "\" is set; mixtures of experts are not supported");
    }
  }

  // Gemma's configs say hidden_activation, the others hidden_act.
  void read_activation() {
    const char* key = config_.parts().scales_embedding ? "hidden_activation" : "hidden_act";
    const auto name = find_value<std::string>(*text_, key, source_);
    if (!name) {
      return;
    }
    // Old files of Gemma 1 say "gelu" and mean the tanh form all the same.
    const bool gelu = *name == "gelu_pytorch_tanh" || *name == "gelu_tanh" ||
                      (*name == "gelu" && config_.family == Family::kGemma1);
    require(gelu || *name == "silu" || *name == "swish", source_, ": \"", key, "\" is ",
            printable(*name), "; wanted gelu_pytorch_tanh or silu");
    config_.activation = gelu ? Activation::kGeluTanh : Activation::kSilu;
  }

  void read_head_and_biases() {
    config_.tied_head =
        find_value<bool>(holder("tie_word_embeddings"), "tie_word_embeddings", source_)
            .value_or(config_.tied_head);
    if (config_.family != Family::kMistral && config_.family != Family::kQwen2) {
      config_.qkv_bias = config_.output_bias = field("attention_bias", false);
    }
    if (config_.family == Family::kLlama) {
      config_.mlp_bias = field("mlp_bias", false);
    }
  }

  void read_sizes() {
    config_.vocab_size = field("vocab_size", config_.vocab_size);
    config_.hidden_size = field("hidden_size", config_.hidden_size);
    config_.intermediate_size = field("intermediate_size", config_.intermediate_size);
    config_.layers = field("num_hidden_layers", config_.layers);
    config_.heads = field("num_attention_heads", config_.heads);
    read_heads();
    config_.max_positions = field("max_position_embeddings", config_.max_positions);
    config_.rms_norm_eps = field("rms_norm_eps", config_.rms_norm_eps);
    for (const char* key : {"torch_dtype", "dtype"}) {
      config_.dtype = find_value<std::string>(holder(key), key, source_).value_or(config_.dtype);
    }
  }

  bool is_null(const char* key) const { return config_keys::is_null(*text_, key); }

  void read_heads() {
    const bool gemma = config_.parts().scales_embedding;
    // Where the others do not say, a head takes its share of the hidden size, and each has its
    // keys.
    const bool derived = !gemma && config_.family != Family::kQwen3 && config_.heads > 0;
    config_.head_dim =
        field("head_dim", derived ? config_.hidden_size / config_.heads : config_.head_dim);
    const bool all = is_null("num_key_value_heads") || config_.family == Family::kLlama;
    config_.kv_heads =
        field("num_key_value_heads", !gemma && all ? config_.heads : config_.kv_heads);
    if (config_.family == Family::kGemma2 || config_.family == Family::kGemma3) {
      config_.query_pre_attn_scalar = field("query_pre_attn_scalar", config_.query_pre_attn_scalar);
    } else if (config_.family != Family::kGemma4) {
      config_.query_pre_attn_scalar = static_cast<double>(config_.head_dim);
    }
  }

  // null is none, which is 0 here and nowhere in a file.
  std::int64_t size_or_none(const char* key, std::int64_t fallback) const {
    const std::int64_t size = is_null(key) ? 0 : field(key, fallback);
    require(size != 0 || is_null(key) || !text_->contains(key), source_, ": \"", key,
            "\" is 0; wanted a size, or null for that of the other layers");
    return size;
  }

  void read_gemma4() {
    if (config_.family != Family::kGemma4) {
      return;
    }
    config_.full_head_dim = size_or_none("global_head_dim", config_.full_head_dim);
    config_.keys_are_values = field("attention_k_eq_v", false);
    config_.full_kv_heads =
        config_.keys_are_values ? size_or_none("num_global_key_value_heads", 0) : 0;
    config_.shared_layers = field("num_kv_shared_layers", std::int64_t{0});
    config_.wide_shared_layers = field("use_double_wide_mlp", false);
    config_.per_layer_size = is_null("hidden_size_per_layer_input")
                                 ? 0
                                 : field("hidden_size_per_layer_input", config_.per_layer_size);
    config_.per_layer_vocab = field("vocab_size_per_layer_input", config_.per_layer_vocab);
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
    if (config_.family == Family::kGemma2 || config_.family == Family::kGemma3) {
      config_.attn_softcap = softcap("attn_logit_softcapping", config_.attn_softcap);
    }
    if (config_.parts().post_norms) {  // Gemma 2 and later
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
    choose_layer_kinds();
    require(config_.layer_kinds.size() == config_.attention.size(), source_,
            ": \"layer_types\" has ", count_text(config_.layer_kinds.size(), "entry", "entries"),
            " for ", count_text(config_.layers, "layer"));
  }

  void choose_layer_kinds() {
    switch (config_.family) {
      case Family::kGemma1:
      case Family::kLlama:
        config_.layer_kinds.assign(config_.layers, LayerKind::kFull);
        return;
      case Family::kMistral:  // all layers slide, or none
        require(!text_->contains("layer_types") || is_null("layer_types"), source_,
                ": \"layer_types\" is not supported with mistral, whose layers are all alike");
        config_.sliding_window =
            is_null("sliding_window") ? 0 : field("sliding_window", config_.sliding_window);
        config_.layer_kinds.assign(
            config_.layers, is_null("sliding_window") ? LayerKind::kFull : LayerKind::kSliding);
        return;
      case Family::kQwen2:
      case Family::kQwen3:
        read_qwen_layer_kinds();
        return;
      default:
        config_.sliding_window = field("sliding_window", config_.sliding_window);
        if (!read_layer_types()) {
          config_.layer_kinds = default_layer_kinds(config_.family, config_.layers, read_pattern());
        }
        if (config_.family == Family::kGemma4 && !config_.layer_kinds.empty()) {
          config_.layer_kinds.back() = LayerKind::kFull;  // whatever the file says
        }
    }
  }

  // With use_sliding_window the layers from max_window_layers on slide.
  void read_qwen_layer_kinds() {
    constexpr std::int64_t kDefaultWindow = 4096, kDefaultFirst = 28;
    const bool slides = field("use_sliding_window", false) && !is_null("sliding_window");
    const std::int64_t first = field("max_window_layers", kDefaultFirst);
    FieldChecks(source_).zero_or_positive("max_window_layers", static_cast<double>(first));
    config_.sliding_window = slides ? field("sliding_window", kDefaultWindow) : 0;
    if (read_layer_types()) {
      return;
    }
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      config_.layer_kinds.push_back(slides && i >= first ? LayerKind::kSliding : LayerKind::kFull);
    }
  }

  // False: the config does not name them.
  bool read_layer_types() {
    const auto names = read_strings(*text_, "layer_types", source_);
    for (const std::string& name : names) {
      require(name == kSlidingName || name == kFullName, source_, ": \"layer_types\" holds ",
              printable(name), "; wanted ", kSlidingName, " or ", kFullName);
      config_.layer_kinds.push_back(name == kSlidingName ? LayerKind::kSliding : LayerKind::kFull);
    }
    return text_->contains("layer_types") && !is_null("layer_types");
  }

  std::int64_t read_pattern() const {
    std::int64_t pattern = default_pattern(config_.family);
    if (config_.family != Family::kGemma3) {
      return pattern;
    }
    for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
      pattern = field(key, pattern);
      require(pattern >= 1, source_, ": \"", key, "\" is ", pattern, "; wanted 1 or more");
    }
    return pattern;
  }

  std::int64_t id_or_none(const char* key, std::int64_t fallback) const {
    const OrderedJson& object = holder(key);
    const bool none = object.contains(key) && object[key].is_null();
    return none ? -1 : find_value<std::int64_t>(object, key, source_).value_or(fallback);
  }

  void read_ids() {
    config_.bos_id = id_or_none("bos_token_id", config_.bos_id);
    config_.pad_id = id_or_none("pad_token_id", config_.pad_id);
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
    require(layers->size() == config_.attention.size(), where, ": \"layers\" has ",
            count_text(layers->size(), "entry", "entries"), ", the model has ",
            count_text(config_.layers, "layer"));
    for (std::size_t i = 0; i < layers->size(); ++i) {
      config_.attention[i] =
          read_attention_spec((*layers)[i], config_.head_dim_of(static_cast<std::int64_t>(i)),
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
