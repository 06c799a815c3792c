// Attention options: names, checks, JSON.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/attention_spec.h"

#include <algorithm>
#include <array>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/model/attention_spec_json.h"

namespace darkformer {
namespace {

// Indexed by the enums.
constexpr std::array<std::string_view, 12> kKinds = {
    "exact", "performer", "dark",     "lfk",    "importance", "oprf",
    "sderf", "aderf",     "hedgehog", "window", "constant",   "random"};
constexpr std::array<std::string_view, 3> kPlacements = {"kv-head", "query-head", "layer"};
constexpr std::array<std::string_view, 2> kRopeOrders = {"after", "before"};
constexpr std::array<std::string_view, 2> kNearKernels = {"factor", "model"};
constexpr std::array<std::string_view, 2> kFarKeys = {"beyond", "all"};
constexpr std::array<std::string_view, 15> kKeys = {
    "attention", "features", "rank",          "placement",      "rope",
    "window",    "sinks",    "near_kernel",   "far_keys",       "orthogonal",
    "centre",    "gate",     "learned_draws", "own_key_factor", "folded"};

constexpr std::int64_t kMostFeatures = std::int64_t{1} << 24;
constexpr std::int64_t kLongestWindow = std::int64_t{1} << 20;  // a state keeps it whole

template <std::size_t Count>
std::string listed(const std::array<std::string_view, Count>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text.append(text.empty() ? "" : ", ").append(name);
  }
  return text;
}

// The enum value of object[key], or `fallback` when the key is missing.
template <class Enum, std::size_t Count>
Enum read_name(const OrderedJson& object,
               const char* key,
               Enum fallback,
               const std::array<std::string_view, Count>& names,
               const std::string& where) {
  const auto value = find_value<std::string>(object, key, where);
  if (!value) {
    return fallback;
  }
  const auto found = std::find(names.begin(), names.end(), *value);
  require(found != names.end(), where, ": \"", key, "\" is ", printable(*value), "; wanted one of ",
          listed(names));
  return static_cast<Enum>(found - names.begin());
}

std::string_view name_of(Placement placement) {
  return kPlacements[static_cast<std::size_t>(placement)];
}

std::string_view name_of(RopeOrder rope) {
  return kRopeOrders[static_cast<std::size_t>(rope)];
}

void check_hedgehog(const AttentionSpec& spec, const std::string& where) {
  if (spec.kind != AttentionKind::kHedgehog) {
    return;
  }
  require(spec.features % 2 == 0, where, ": \"features\" is ", spec.features,
          "; attention hedgehog has as many of softmax(W x) as of softmax(-W x): wanted an even "
          "number");
  require(!spec.centre, where, ": \"centre\": attention hedgehog has no centres");
  require(spec.orthogonal, where, ": \"orthogonal\": attention hedgehog has no draws");
  require(spec.near == NearKernel::kModel, where,
          ": \"near_kernel\" is factor; attention hedgehog has near keys by the model's own only");
}

void check_near_kernel(const AttentionSpec& spec, const std::string& where) {
  const bool model = spec.near == NearKernel::kModel;
  require(!model || spec.rope == RopeOrder::kAfter, where,
          ": \"near_kernel\": \"model\" needs queries and keys as the model has them, and with "
          "\"rope\": \"before\" the factor has changed them before the rotation");
  require(!model || !spec.folded || (spec.window == 0 && spec.sinks == 0), where,
          ": \"near_kernel\": \"model\": a factor is folded into the projections, so that the "
          "model's own kernel is gone; use \"near_kernel\": \"factor\", or convert the original "
          "folder");
}

}  // namespace

std::string_view attention_kind_name(AttentionKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<AttentionKind> find_attention_kind(std::string_view name) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), name);
  return found == kKinds.end() ? std::nullopt
                               : std::optional(static_cast<AttentionKind>(found - kKinds.begin()));
}

bool has_features(AttentionKind kind) {
  return kind != AttentionKind::kExact && kind != AttentionKind::kWindow &&
         kind != AttentionKind::kConstant && kind != AttentionKind::kRandom;
}

bool has_draws(AttentionKind kind) {
  return has_features(kind) && kind != AttentionKind::kHedgehog;
}

bool has_factor(AttentionKind kind) {
  return kind == AttentionKind::kDark || kind == AttentionKind::kAderf ||
         kind == AttentionKind::kHedgehog;
}

bool has_log_weights(AttentionKind kind) {
  return kind == AttentionKind::kImportance || kind == AttentionKind::kOprf ||
         kind == AttentionKind::kSderf || kind == AttentionKind::kAderf;
}

bool learns(AttentionKind kind) {
  return kind == AttentionKind::kDark || kind == AttentionKind::kLfk ||
         kind == AttentionKind::kHedgehog;
}

bool learns_draws(const AttentionSpec& spec) {
  return spec.kind == AttentionKind::kLfk || spec.learned_draws;
}

bool has_key_factor(const AttentionSpec& spec) {
  return spec.kind == AttentionKind::kAderf || spec.kind == AttentionKind::kHedgehog ||
         spec.own_key_factor;
}

NearKernel usual_near_kernel(AttentionKind kind) {
  return kind == AttentionKind::kHedgehog ? NearKernel::kModel : NearKernel::kFactor;
}

std::int64_t factor_rows(const AttentionSpec& spec) {
  return spec.kind == AttentionKind::kHedgehog ? spec.features / 2 : spec.rank;
}

void check_attention_spec(const AttentionSpec& spec,
                          std::int64_t head_dim,
                          const std::string& where) {
  const auto check_range = [&](const char* key, std::int64_t value, std::int64_t least,
                               std::int64_t most) {
    require(value >= least && value <= most, where, ": \"", key, "\" is ", value, "; wanted ",
            least, " to ", most);
  };
  if (spec.kind == AttentionKind::kWindow) {
    check_range("window", spec.window, 1, kLongestWindow);
    require(spec == AttentionSpec{.kind = spec.kind, .window = spec.window}, where,
            ": attention window takes no option but \"window\"");
    return;
  }
  if (!has_features(spec.kind)) {
    require(spec == AttentionSpec{.kind = spec.kind}, where, ": attention ",
            attention_kind_name(spec.kind), " takes no options");
    return;
  }
  check_range("features", spec.features, 1, kMostFeatures);
  check_range("rank", spec.rank, 1, head_dim);
  check_range("window", spec.window, 0, kLongestWindow);
  check_range("sinks", spec.sinks, 0, kLongestWindow);
  require(spec.rank == head_dim || spec.kind == AttentionKind::kDark, where, ": \"rank\" is ",
          spec.rank, ", but attention ", attention_kind_name(spec.kind),
          " has no factor of lower rank: wanted ", head_dim);
  require(!spec.learned_draws || (has_draws(spec.kind) && !has_log_weights(spec.kind)), where,
          ": \"learned_draws\": attention ", attention_kind_name(spec.kind),
          " has no draws that could be learned");
  require(!spec.own_key_factor || spec.kind == AttentionKind::kDark, where,
          ": \"own_key_factor\": attention ", attention_kind_name(spec.kind),
          " has no factor that keys could do without");
  require(!spec.gate || spec.window > 0, where, ": \"gate\" needs a window");
  const bool before = spec.rope == RopeOrder::kBefore;
  require(!before || spec.rank == head_dim, where, ": \"rope\": \"before\" needs the full rank ",
          head_dim, ", got ", spec.rank);
  require(!before || !has_key_factor(spec), where,
          ": \"rope\": \"before\": a factor of the keys' own (attention ",
          attention_kind_name(spec.kind), ") is fitted to rotated queries and keys");
  require(!before || spec.placement != Placement::kQueryHead, where,
          ": \"rope\": \"before\" needs one M for the query heads of a key head; "
          "use \"placement\": \"kv-head\"");
  check_near_kernel(spec, where);
  check_hedgehog(spec, where);
}

AttentionSpec read_attention_spec(const OrderedJson& layer,
                                  std::int64_t head_dim,
                                  const std::string& where) {
  require(layer.is_object(), where, ": must be an object");
  for (const auto& [key, value] : layer.items()) {
    const bool known = std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
    require(known, where, ": unknown key \"", printable(key), "\"; wanted ", listed(kKeys));
  }
  AttentionSpec spec;
  get_value<std::string>(layer, "attention", where);
  spec.kind = read_name(layer, "attention", AttentionKind::kExact, kKinds, where);
  const auto number = [&](const char* key, std::int64_t fallback) {
    return find_value<std::int64_t>(layer, key, where).value_or(fallback);
  };
  const auto flag = [&](const char* key, bool fallback) {
    return find_value<bool>(layer, key, where).value_or(fallback);
  };
  spec.features = number("features", 0);
  spec.rank = number("rank", has_features(spec.kind) ? head_dim : 0);
  spec.placement = read_name(layer, "placement", Placement::kKvHead, kPlacements, where);
  spec.rope = read_name(layer, "rope", RopeOrder::kAfter, kRopeOrders, where);
  spec.window = number("window", 0);
  spec.sinks = number("sinks", 0);
  spec.near = read_name(layer, "near_kernel", usual_near_kernel(spec.kind), kNearKernels, where);
  spec.far = read_name(layer, "far_keys", FarKeys::kBeyond, kFarKeys, where);
  spec.orthogonal = flag("orthogonal", true);
  spec.centre = flag("centre", false);
  spec.gate = flag("gate", false);
  spec.learned_draws = flag("learned_draws", false);
  spec.own_key_factor = flag("own_key_factor", false);
  spec.folded = flag("folded", false);
  check_attention_spec(spec, head_dim, where);
  return spec;
}

OrderedJson attention_spec_json(const AttentionSpec& spec) {
  OrderedJson layer;
  layer["attention"] = attention_kind_name(spec.kind);
  if (spec.kind == AttentionKind::kWindow) {
    layer["window"] = spec.window;
  }
  if (!has_features(spec.kind)) {
    return layer;
  }
  layer["features"] = spec.features;
  layer["rank"] = spec.rank;
  layer["placement"] = name_of(spec.placement);
  layer["rope"] = name_of(spec.rope);
  layer["window"] = spec.window;
  layer["sinks"] = spec.sinks;
  if (spec.near == NearKernel::kModel) {
    layer["near_kernel"] = kNearKernels[static_cast<std::size_t>(spec.near)];
  }
  if (spec.far == FarKeys::kAll) {
    layer["far_keys"] = kFarKeys[static_cast<std::size_t>(spec.far)];
  }
  layer["orthogonal"] = spec.orthogonal;
  if (spec.centre) {
    layer["centre"] = true;
  }
  if (spec.gate) {
    layer["gate"] = true;
  }
  if (spec.learned_draws) {
    layer["learned_draws"] = true;
  }
  if (spec.own_key_factor) {
    layer["own_key_factor"] = true;
  }
  if (spec.folded) {
    layer["folded"] = true;
  }
  return layer;
}

}  // namespace darkformer
