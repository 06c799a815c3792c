// Which options of convert fit together.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/convert_options.h"

#include <algorithm>
#include <array>
#include <map>

#include "darkformer/base/error.h"
#include "darkformer/commands/attention_text.h"
#include "darkformer/commands/layer_list.h"
#include "darkformer/commands/out_place.h"

namespace darkformer {
namespace {

// Options of features mean nothing to the kinds that have none.
constexpr std::array<const char*, 15> kOfFeatures = {
    "features",   "rank",      "rank-share", "window", "sinks",     "near", "far-keys", "gate",
    "gate-scale", "gate-bias", "centre",     "init",   "placement", "rope", "iid"};

bool is_of_features(const std::string& name) {
  return std::find(kOfFeatures.begin(), kOfFeatures.end(), name) != kOfFeatures.end();
}

void check_gate(const ConvertOptions& o, const Context& context) {
  for (const Field& field : context.fields) {
    if (field.given && field.name.starts_with("gate") && o.window == 0) {
      throw UsageError(concat(field.name == "gate" && !o.gate ? "--no-gate" : field.flag(),
                              " is about the join of a window and the far field; give --window"));
    }
    if (field.given && field.name.starts_with("gate-") && !o.gate) {
      throw UsageError(concat(field.flag(), " has no meaning with --no-gate"));
    }
  }
}

void check_near(const ConvertOptions& o, const Context& context) {
  for (const char* name : {"near", "far-keys"}) {
    if (was_given(context, name) && o.window == 0 && o.sinks == 0) {
      throw UsageError(concat("--", name, " is about exact keys; give --window or --sinks"));
    }
  }
}

// Exact keys of a layer with a factor keep the kernel that the model was trained with, where the op
// sees queries and keys without the factor.
NearKernel near_kernel_of(const ConvertOptions& o, const AttentionSpec& spec) {
  if (o.near) {
    return *o.near == "model" ? NearKernel::kModel : NearKernel::kFactor;
  }
  const bool own = has_factor(spec.kind) && spec.rope == RopeOrder::kAfter && !spec.folded &&
                   (spec.window > 0 || spec.sinks > 0);
  return own ? NearKernel::kModel : usual_near_kernel(spec.kind);
}

void check_rank(const ConvertOptions& o) {
  if (!o.rank_share) {
    return;
  }
  check_rank_share(*o.rank_share, o.attention);
  if (o.rank) {
    throw UsageError("--rank and --rank-share exclude each other: both say what the rank is");
  }
  if (o.rope == "before") {
    throw UsageError("--rank-share: a factor before the rotation (--rope before) has full rank");
  }
}

void check_kind(const ConvertOptions& o, const Context& context) {
  const AttentionKind kind = *find_attention_kind(o.attention);
  const bool window_only = kind == AttentionKind::kWindow;
  require_window(kind, o.window);
  for (const Field& field : context.fields) {
    if (field.given && is_of_features(field.name) && !has_features(kind) &&
        !(window_only && field.name == "window")) {
      throw UsageError(concat("--", field.name, " has no meaning for --attention ", o.attention));
    }
  }
  if (o.clip && kind != AttentionKind::kImportance) {
    throw UsageError("--clip has a meaning for --attention importance only");
  }
  if (was_given(context, "init") && kind != AttentionKind::kDark) {
    throw UsageError(concat("--init has no meaning for --attention ", o.attention));
  }
  check_rank(o);
  check_gate(o, context);
  check_near(o, context);
  if (o.clip && !(*o.clip > 0.0)) {
    throw UsageError(concat("--clip: wanted a number above 0, got ", *o.clip));
  }
}

void check_automatic(const ConvertOptions& o, const Context& context) {
  if (o.budget && !o.automatic) {
    throw UsageError("--budget has a meaning with --auto only");
  }
  if (!o.automatic) {
    return;
  }
  if (!o.analysis) {
    throw UsageError("--auto needs what darkformer analyze wrote; give --analysis FILE");
  }
  for (const Field& field : context.fields) {
    if (field.given && (field.name == "attention" || field.name == "clip" || field.name == "fold" ||
                        field.name == "keep-worst" || is_of_features(field.name))) {
      throw UsageError(concat("--", field.name,
                              " has no meaning with --auto, which chooses for "
                              "each layer"));
    }
  }
}

void check_moments(const ConvertOptions& o, const Context& context) {
  if (o.analysis && !o.data.empty() && !o.fit) {
    throw UsageError("--data and --analysis exclude each other: both are where moments come from");
  }
  check_own_tokens(o.own_tokens, !o.data.empty() || (o.analysis && !o.fit));
  for (const char* name : {"tokens", "context", "cache", "own-tokens"}) {
    if (o.data.empty() && was_given(context, name) && !needs_own_text(o, context)) {
      throw UsageError(concat("--", name, " is about reading text, and nothing here asks for any"));
    }
  }
}

// Each part that --fit-what names is one that this attention has.
void check_fit_parts(const ConvertOptions& o) {
  if (!o.fit || o.automatic) {
    return;
  }
  const AttentionKind kind = *find_attention_kind(o.attention);
  const bool dark = kind == AttentionKind::kDark, hedgehog = kind == AttentionKind::kHedgehog;
  const std::map<std::string, bool> has = {
      {"factor", dark || hedgehog},
      {"key-factor", dark || hedgehog},
      {"draws", dark || kind == AttentionKind::kLfk},
      {"centres", o.centre && learns(kind)},
      {"gate", o.window > 0 && o.gate},
  };
  for (const std::string& part : o.fit_what) {
    if (!has.at(part)) {
      throw UsageError(concat("--fit-what ", part, ": this attention has none"));
    }
  }
}

void check_fit(const ConvertOptions& o, const Context& context) {
  for (const Field& field : context.fields) {
    if (field.given && (field.name.starts_with("fit-") || field.name == "keep-worst") && !o.fit) {
      throw UsageError(concat(field.flag(), " is about the fit, and nothing is fitted here"));
    }
  }
  if (o.fit_report) {
    check_outside(*o.fit_report, o.model, "--fit-report");
    check_out_folder(*o.fit_report, holds_results_of("fit"), "--fit-report");
    if (std::filesystem::absolute(*o.fit_report).lexically_normal() ==
        std::filesystem::absolute(o.out).lexically_normal()) {
      throw UsageError("--fit-report and --out are one folder; give each its own");
    }
  }
  check_fit_parts(o);
}

// What the fit can change in this attention.
bool can_fit(const ConvertOptions& o) {
  const AttentionKind kind = *find_attention_kind(o.attention);
  // A factor before the rotation is not seen by the rotated queries and keys that are fitted to.
  return o.rope != "before" && (learns(kind) || (has_features(kind) && o.window > 0 && o.gate));
}

void check_fold(const ConvertOptions& o, const Context& context) {
  if (!o.fold) {
    return;
  }
  if (folds_present(o, context)) {
    for (const Field& field : context.fields) {
      if (field.given && (is_of_features(field.name) || field.name == "data" ||
                          field.name == "analysis" || field.name == "clip")) {
        throw UsageError(concat("--", field.name,
                                " has no meaning where --fold takes the factors "
                                "of a converted model; give --attention dark "
                                "to convert anew"));
      }
    }
    return;
  }
  if (o.attention != "dark" || o.rope != "before") {
    throw UsageError(
        "--fold needs --attention dark --rope before: nothing else has a factor next "
        "to the projections");
  }
  if (const std::string start = start_of(o); start == "identity" || start == "leading") {
    throw UsageError(concat("--fold of --init ", start,
                            " changes nothing; give another --init, or fold a trained model by "
                            "--fold alone"));
  }
}

}  // namespace

void check_rank_share(double share, const std::string& attention) {
  if (attention != "dark") {
    throw UsageError(concat("--rank-share has no meaning for --attention ", attention));
  }
  if (!(share > 0.0 && share <= 1.0)) {
    throw UsageError(concat("--rank-share: wanted a number above 0 and at most 1, got ", share));
  }
}

bool fits_part(const ConvertOptions& o, const char* part) {
  return o.fit && (o.fit_what.empty() ||
                   std::find(o.fit_what.begin(), o.fit_what.end(), part) != o.fit_what.end());
}

bool was_given(const Context& context, const std::string& name) {
  return std::any_of(context.fields.begin(), context.fields.end(),
                     [&](const Field& field) { return field.given && field.name == name; });
}

bool folds_present(const ConvertOptions& o, const Context& context) {
  return o.fold && !was_given(context, "attention");
}

ConvertOptions settled(const ConvertOptions& given, const Context& context) {
  ConvertOptions o = given;
  if (was_given(context, "fit") && o.fit && !o.automatic && !can_fit(o)) {
    throw UsageError(concat(
        "--fit: attention ", o.attention,
        o.rope == "before" ? " with --rope before cannot be fitted" : " has nothing to fit"));
  }
  // What an analysis chooses is fitted where there is text, or on request.
  const bool possible = o.automatic ? was_given(context, "fit") || !o.data.empty() : can_fit(o);
  o.fit = o.fit && possible && !folds_present(o, context);
  if (!was_given(context, "centre")) {
    o.centre = o.fit && *find_attention_kind(o.attention) != AttentionKind::kHedgehog;
  }
  return o;
}

void check_options(const ConvertOptions& o, const Context& context) {
  check_automatic(o, context);
  check_moments(o, context);
  check_fold(o, context);
  check_fit(o, context);
  check_outside(o.out, o.model);
  check_out_folder(o.out);
  check_kind(o, context);
}

void check_keep_worst(const ConvertOptions& o, const ModelConfig& config) {
  if (o.keep_worst == 0) {
    return;
  }
  const std::vector<std::int64_t> layers = chosen_layers(o, config);
  const auto fitted = std::count_if(layers.begin(), layers.end(),
                                    [&](std::int64_t i) { return config.owns_keys(i); });
  if (o.keep_worst >= fitted) {
    throw UsageError(concat("--keep-worst: ", o.keep_worst, " of ", count_text(fitted, "layer"),
                            " leaves nothing to convert"));
  }
}

AttentionSpec spec_of(const ConvertOptions& o, const ModelConfig& config, std::int64_t layer) {
  const std::int64_t head_dim = config.head_dim_of(layer);
  AttentionSpec spec;
  spec.kind = *find_attention_kind(o.attention);
  if (spec.kind == AttentionKind::kWindow) {
    spec.window = o.window;
  }
  if (!has_features(spec.kind)) {
    return spec;
  }
  spec.features = o.features.value_or(head_dim);
  spec.rank = o.rank.value_or(head_dim);
  spec.window = o.window, spec.sinks = o.sinks;
  spec.centre = o.centre, spec.orthogonal = !o.iid;
  spec.gate = o.gate && o.window > 0;
  spec.learned_draws = spec.kind == AttentionKind::kDark && fits_part(o, "draws");
  spec.own_key_factor = spec.kind == AttentionKind::kDark && fits_part(o, "key-factor");
  spec.placement = o.placement == "layer"        ? Placement::kLayer
                   : o.placement == "query-head" ? Placement::kQueryHead
                                                 : Placement::kKvHead;
  spec.rope = o.rope == "before" ? RopeOrder::kBefore : RopeOrder::kAfter;
  spec.folded = config.attention[static_cast<std::size_t>(layer)].folded;
  spec.near = near_kernel_of(o, spec);
  spec.far = o.far_keys == "all" ? FarKeys::kAll : FarKeys::kBeyond;
  try {
    check_attention_spec(spec, head_dim, "this conversion");
  } catch (const Error& error) {
    // What the user asked for cannot be: wrong usage, not a failure.
    throw UsageError(error.what());
  }
  return spec;
}

std::vector<std::int64_t> chosen_layers(const ConvertOptions& o, const ModelConfig& config) {
  std::vector<bool> chosen(static_cast<std::size_t>(config.layers), false);
  if (o.layers.empty()) {
    for (std::int64_t i = 0; i < config.layers; ++i) {
      // Turning back applies to whatever was converted.
      chosen[i] = o.attention == "exact" || !config.is_sliding(i);
    }
  }
  for (const std::int64_t i : parse_layers("--layers", o.layers, config.layers)) {
    chosen[i] = true;
  }
  for (const std::int64_t i : parse_layers("--keep-exact", o.keep_exact, config.layers)) {
    chosen[i] = false;
  }
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    if (const std::int64_t owner = config.key_layer(i); chosen[i] != chosen[owner]) {
      throw UsageError(concat("layers ", owner, " and ", i,
                              " share keys and values; choose both of them or neither"));
    }
    if (chosen[i]) {
      result.push_back(i);
    }
  }
  if (result.empty()) {
    throw UsageError(o.keep_exact.empty() ? "every layer has a sliding window; choose with --layers"
                                          : "--keep-exact leaves no layer to convert");
  }
  return result;
}

std::string start_of(const ConvertOptions& o) {
  const bool ranked = o.rank || o.rank_share, text = !o.data.empty() || o.analysis;
  return o.init.value_or(ranked && text && o.attention == "dark" ? "leading" : "identity");
}

bool needs_own_text(const ConvertOptions& o, const Context& context) {
  const bool knows_moments = o.analysis && !o.fit;
  return o.data.empty() && !knows_moments && !folds_present(o, context) &&
         !needs_moments(o).empty();
}

std::string needs_moments(const ConvertOptions& o) {
  if (has_log_weights(*find_attention_kind(o.attention))) {
    return "--attention " + o.attention;
  }
  if (o.rank_share) {
    return "--rank-share";
  }
  return o.fit                       ? "--fit"
         : o.centre                  ? "--centre"
         : start_of(o) != "identity" ? "--init " + start_of(o)
                                     : "";
}

}  // namespace darkformer
