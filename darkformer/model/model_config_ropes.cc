// Two spellings, one rotation or two.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_config_ropes.h"

#include "darkformer/base/error.h"
#include "darkformer/model/field_checks.h"
#include "darkformer/model/model_config_keys.h"
#include "darkformer/model/rope_json.h"

namespace darkformer {
namespace {

using config_keys::has_object;
using config_keys::is_null;
using config_keys::kFullName;
using config_keys::kSlidingName;

class RopesReader {
 public:
  RopesReader(const OrderedJson& text, const std::string& source, const ModelConfig& config)
      : text_(text), source_(source), config_(config) {}

  RopeSpec full() const {
    const RopeSpec outer = with_base("rope_theta", config_.rope_full);
    if (is_filled("rope_scaling")) {  // transformers lets it win over rope_parameters
      return from(text_, "rope_scaling", source_ + ": ", outer);
    }
    if (!is_filled("rope_parameters")) {
      return outer;
    }
    require(has_two() || !is_nested(), source_,
            ": \"rope_parameters\" has a part for each kind of layer; ", config_.parts().model_type,
            " has one rotation for all");
    return is_nested() ? part(kFullName, outer)
                       : from(text_, "rope_parameters", source_ + ": ", outer);
  }

  RopeSpec sliding(const RopeSpec& full) const {
    if (!has_two()) {
      return full;
    }
    const RopeSpec outer = with_base("rope_local_base_freq", config_.rope_sliding);
    return !is_filled("rope_scaling") && is_filled("rope_parameters") && is_nested()
               ? part(kSlidingName, outer)
               : outer;
  }

 private:
  bool has_two() const {
    return config_.family == Family::kGemma3 || config_.family == Family::kGemma4;
  }
  bool is_filled(const char* key) const {
    require(!text_.contains(key) || is_null(text_, key) || has_object(text_, key), source_, ": \"",
            key, "\" must be an object");
    return has_object(text_, key) && !text_[key].empty();
  }
  bool is_nested() const {
    const OrderedJson& both = text_["rope_parameters"];
    return has_object(both, kFullName) || has_object(both, kSlidingName);
  }

  // The default with the base that stands outside of all objects.
  RopeSpec with_base(const char* key, RopeSpec rope) const {
    rope.base = find_value<double>(text_, key, source_).value_or(rope.base);
    FieldChecks(source_).positive(key, rope.base);
    return rope;
  }

  RopeSpec part(const char* kind, const RopeSpec& fallback) const {
    const OrderedJson& both = text_["rope_parameters"];
    return has_object(both, kind) ? from(both, kind, source_ + ": rope_parameters.", fallback)
                                  : fallback;
  }

  RopeSpec from(const OrderedJson& holder,
                const char* key,
                const std::string& path,
                const RopeSpec& fallback) const {
    return read_rope_spec(holder[key], fallback.base, config_.max_positions, path + key);
  }

  const OrderedJson& text_;
  const std::string& source_;
  const ModelConfig& config_;
};

}  // namespace

void read_ropes(const OrderedJson& text, const std::string& source, ModelConfig& config) {
  // Rotations are stretched from it, and would be blamed for it.
  FieldChecks(source).within("max_position_embeddings", config.max_positions, 1, kMostPositions);
  const RopesReader reader(text, source, config);
  const RopeSpec full = reader.full(), sliding = reader.sliding(full);
  config.rope_full = full, config.rope_sliding = sliding;
}

}  // namespace darkformer
