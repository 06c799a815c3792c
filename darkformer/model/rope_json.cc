// The keys of every kind of rotation.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rope_json.h"

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr const char* kOriginal = "original_max_position_embeddings";

RopeKind read_kind(const OrderedJson& object, const std::string& source) {
  const auto named = find_value<std::string>(object, "rope_type", source);
  const auto type =
      named ? *named : find_value<std::string>(object, "type", source).value_or("default");
  const auto kind = find_rope_kind(type);
  require(kind.has_value(), source, ": rope_type is ", printable(type),
          "; wanted default, linear, llama3, yarn, dynamic or proportional");
  return *kind;
}

void read_yarn(const OrderedJson& object, const std::string& source, RopeSpec& rope) {
  const auto number = [&](const char* key) { return find_value<double>(object, key, source); };
  rope.beta_fast = number("beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = number("beta_slow").value_or(rope.beta_slow);
  rope.truncate = find_value<bool>(object, "truncate", source).value_or(true);
  rope.amplitude =
      number("attention_factor")
          .value_or(yarn_amplitude(rope.factor, number("mscale"), number("mscale_all_dim")));
}

}  // namespace

RopeSpec read_rope_spec(const OrderedJson& object,
                        double base,
                        std::int64_t positions,
                        const std::string& source) {
  const auto number = [&](const char* key) { return find_value<double>(object, key, source); };
  RopeSpec rope;
  rope.kind = read_kind(object, source);
  rope.base = number("rope_theta").value_or(base);
  rope.share = number("partial_rotary_factor").value_or(1);
  require(rope.share == 1 || rope.kind == RopeKind::kProportional, source,
          ": \"partial_rotary_factor\" is ", rope.share, "; only proportional rotations have it");
  switch (rope.kind) {
    case RopeKind::kDefault:
      return rope;
    case RopeKind::kProportional:
      rope.factor = number("factor").value_or(1);
      return rope;
    default:
      break;
  }
  const bool null_yarn =
      rope.kind == RopeKind::kYarn && object.contains("factor") && object["factor"].is_null();
  if (!null_yarn) {
    rope.factor = get_value<double>(object, "factor", source);
  }
  if (rope.kind == RopeKind::kDynamic) {
    rope.original = positions;  // as transformers has it, whatever the object says
  } else if (rope.kind != RopeKind::kLinear) {
    rope.original = find_value<std::int64_t>(object, kOriginal, source).value_or(positions);
    require(rope.original > 0, source, ": \"", kOriginal, "\" is ", rope.original,
            "; wanted 1 or more");
  }
  if (null_yarn) {  // as transformers has it
    rope.factor = static_cast<double>(positions) / static_cast<double>(rope.original);
  }
  if (rope.kind == RopeKind::kLlama3) {
    rope.low_frequency = get_value<double>(object, "low_freq_factor", source);
    rope.high_frequency = get_value<double>(object, "high_freq_factor", source);
  } else if (rope.kind == RopeKind::kYarn) {
    read_yarn(object, source, rope);
  }
  return rope;
}

OrderedJson rope_spec_json(const RopeSpec& rope) {
  OrderedJson json;
  json["rope_type"] = rope_kind_name(rope.kind);
  if (rope.kind == RopeKind::kProportional) {
    json["partial_rotary_factor"] = rope.share;
  }
  if (rope.factor != 1 ||
      (rope.kind != RopeKind::kDefault && rope.kind != RopeKind::kProportional)) {
    json["factor"] = rope.factor;
  }
  if (rope.original > 0 && rope.kind != RopeKind::kDynamic) {
    json[kOriginal] = rope.original;
  }
  if (rope.kind == RopeKind::kLlama3) {
    json["low_freq_factor"] = rope.low_frequency;
    json["high_freq_factor"] = rope.high_frequency;
  }
  if (rope.kind == RopeKind::kYarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    json["attention_factor"] = rope.amplitude;
  }
  return json;
}

}  // namespace darkformer
