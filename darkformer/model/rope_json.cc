// The keys of every kind of rotation.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rope_json.h"

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/model/field_checks.h"
#include "darkformer/model/model_config.h"

namespace darkformer {
namespace {

constexpr const char* kOriginal = "original_max_position_embeddings";

RopeKind read_kind(const OrderedJson& object, const std::string& where) {
  const char* key =
      object.contains("rope_type") && !object["rope_type"].is_null() ? "rope_type" : "type";
  const auto type = find_value<std::string>(object, key, where).value_or("default");
  const auto kind = find_rope_kind(type);
  require(kind.has_value(), where, ": \"", key, "\" is ", printable(type),
          "; wanted default, linear, llama3, yarn, dynamic or proportional");
  return *kind;
}

void read_yarn(const OrderedJson& object, const std::string& where, RopeSpec& rope) {
  const auto number = [&](const char* key) { return find_value<double>(object, key, where); };
  rope.beta_fast = number("beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = number("beta_slow").value_or(rope.beta_slow);
  rope.truncate = find_value<bool>(object, "truncate", where).value_or(true);
  rope.amplitude =
      number("attention_factor")
          .value_or(yarn_amplitude(rope.factor, number("mscale"), number("mscale_all_dim")));
}

// What linear, llama3, yarn and dynamic have besides.
void read_stretch(const OrderedJson& object,
                  std::int64_t positions,
                  const std::string& where,
                  RopeSpec& rope) {
  if (rope.kind == RopeKind::kDynamic) {
    rope.original = positions;  // as transformers has it, whatever the object says
  } else if (rope.kind != RopeKind::kLinear) {
    rope.original = find_value<std::int64_t>(object, kOriginal, where).value_or(positions);
  }
  const bool null_yarn =
      rope.kind == RopeKind::kYarn && object.contains("factor") && object["factor"].is_null();
  rope.factor = null_yarn  // as transformers has it
                    ? static_cast<double>(positions) / static_cast<double>(rope.original)
                    : get_value<double>(object, "factor", where);
  if (rope.kind == RopeKind::kLlama3) {
    rope.low_frequency = get_value<double>(object, "low_freq_factor", where);
    rope.high_frequency = get_value<double>(object, "high_freq_factor", where);
  } else if (rope.kind == RopeKind::kYarn) {
    read_yarn(object, where, rope);
  }
}

}  // namespace

RopeSpec read_rope_spec(const OrderedJson& object,
                        double base,
                        std::int64_t positions,
                        const std::string& where) {
  const auto number = [&](const char* key) { return find_value<double>(object, key, where); };
  RopeSpec rope;
  rope.kind = read_kind(object, where);
  rope.base = number("rope_theta").value_or(base);
  rope.share = number("partial_rotary_factor").value_or(1);
  require(rope.share == 1 || rope.kind == RopeKind::kProportional, where,
          ": \"partial_rotary_factor\" is ", rope.share, "; only proportional rotations have it");
  // Of every kind, though not every kind uses it.
  if (const auto original = find_value<std::int64_t>(object, kOriginal, where)) {
    FieldChecks(where).within(kOriginal, *original, 1, kMostPositions);
  }
  if (rope.kind == RopeKind::kProportional) {
    rope.factor = number("factor").value_or(1);
  } else if (rope.kind != RopeKind::kDefault) {
    read_stretch(object, positions, where, rope);
  }
  check_rope_spec(rope, where);
  return rope;
}

void check_rope_spec(const RopeSpec& rope, const std::string& where) {
  const FieldChecks check(where);
  check.positive("rope_theta", rope.base);
  check.positive("factor", rope.factor);
  check.positive("attention_factor", rope.amplitude);
  require(rope.share > 0 && rope.share <= 1, where, ": \"partial_rotary_factor\" is ", rope.share,
          "; wanted above 0, at most 1");
  if (rope.original != 0) {
    check.within(kOriginal, rope.original, 1, kMostPositions);
  }
  check.positive("low_freq_factor", rope.low_frequency);
  check.positive("beta_slow", rope.beta_slow);
  require(rope.high_frequency > rope.low_frequency, where, ": \"high_freq_factor\" is ",
          rope.high_frequency, "; wanted more than \"low_freq_factor\", ", rope.low_frequency);
  require(rope.beta_fast >= rope.beta_slow, where, ": \"beta_fast\" is ", rope.beta_fast,
          "; wanted at least \"beta_slow\", ", rope.beta_slow);
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
