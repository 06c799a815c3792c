// darkformer convert: a model folder with another attention in chosen layers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>

#include "darkformer/base/error.h"
#include "darkformer/base/system_info.h"
#include "darkformer/checkpoint/gemma_folder.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/layer_list.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/collect_moments.h"
#include "darkformer/evaluation/collect_near_mass.h"
#include "darkformer/model/conversion.h"

namespace darkformer {
namespace {

struct ConvertOptions {
  std::filesystem::path model;
  std::string attention = "dark";
  std::optional<std::int64_t> features, rank;
  std::int64_t window = 0, sinks = 0;
  bool centre = false, iid = false, gate = true;
  std::string init = "identity", placement = "kv-head", rope = "after";
  std::vector<std::string> layers, keep_exact;
  std::vector<std::filesystem::path> data;
  std::optional<double> clip, gate_scale, gate_bias;
  std::int64_t tokens = 65536, context = 1024;
  std::filesystem::path out;

  void visit(auto&& field) {
    field("model", model, "model folder to convert; it is not changed",
          {.positional = true, .required = true});
    field("attention", attention,
          "attention of the converted layers; exact turns a converted model back",
          {.choices = {"exact", "performer", "dark", "lfk", "importance", "oprf", "sderf", "aderf",
                       "constant", "random"}});
    field("features", features, "random features per head",
          {.minimum = 1, .empty_means = "the head size"});
    field("rank", rank, "rank of the covariance (dark)",
          {.minimum = 1, .empty_means = "the head size"});
    field("window", window, "nearest keys that stay exact, the token's own included",
          {.minimum = 0});
    field("sinks", sinks, "first keys of the sequence that stay exact", {.minimum = 0});
    field("gate", gate,
          "with a window: join it to the far field by a learned gate (off: one common normaliser)");
    field("gate-scale", gate_scale,
          "where the gate's weight c on the difference of the normalisers starts: 1 is one common "
          "normaliser, 0 a plain gate",
          {.empty_means = "0 with --data, 0.5 without"});
    field("gate-bias", gate_bias, "where the gate's bias starts",
          {.empty_means = "from the attention within the window on --data, or 0"});
    field("centre", centre, "centre queries and keys by their means over --data");
    field("init", init, "where the covariance's factor starts (dark); all but identity need --data",
          {.choices = factor_start_names()});
    field("clip", clip,
          "raise the proposal's inverse covariance to this where the optimal one does not exist "
          "(importance)",
          {.empty_means = "refuse"});
    field("placement", placement, "one set of parameters for each of these",
          {.choices = {"kv-head", "query-head", "layer"}});
    field("rope", rope, "does the factor act before or after the rotation",
          {.choices = {"after", "before"}});
    field("iid", iid, "independent draws instead of orthogonal ones");
    field("layers", layers, "layers to convert: numbers, ranges (3-7) or all",
          {.value_name = "LAYERS", .empty_means = "all layers without a sliding window"});
    field("keep-exact", keep_exact, "layers to leave exact: numbers or ranges",
          {.value_name = "LAYERS"});
    field("data", data,
          "text to take means and covariances from (.txt, .jsonl, .json.gz, .zst or token shards)");
    field("tokens", tokens, "tokens of --data to read", {.minimum = 1});
    field("context", context, "tokens per window while reading --data", {.minimum = 1});
    field("out", out, "folder to write", {.required = true, .value_name = "DIR"});
  }
};

AttentionSpec spec_of(const ConvertOptions& o, const GemmaConfig& config) {
  AttentionSpec spec;
  spec.kind = *find_attention_kind(o.attention);
  if (!has_features(spec.kind)) {
    return spec;
  }
  spec.features = o.features.value_or(config.head_dim);
  spec.rank = o.rank.value_or(config.head_dim);
  spec.window = o.window, spec.sinks = o.sinks;
  spec.centre = o.centre, spec.orthogonal = !o.iid;
  spec.gate = o.gate && o.window > 0;
  spec.placement = o.placement == "layer"        ? Placement::kLayer
                   : o.placement == "query-head" ? Placement::kQueryHead
                                                 : Placement::kKvHead;
  spec.rope = o.rope == "before" ? RopeOrder::kBefore : RopeOrder::kAfter;
  return spec;
}

std::vector<std::int64_t> chosen_layers(const ConvertOptions& o, const GemmaConfig& config) {
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
    if (chosen[i]) {
      result.push_back(i);
    }
  }
  return result;
}

bool has_converted_layer(const GemmaConfig& config, const std::vector<std::int64_t>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](std::int64_t i) {
    return config.attention[static_cast<std::size_t>(i)].kind != AttentionKind::kExact;
  });
}

// What the user asked for cannot be: wrong usage, not a failure.
void check_spec(const AttentionSpec& spec, std::int64_t head_dim) {
  try {
    check_attention_spec(spec, head_dim, "this conversion");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

// Options of features mean nothing to the kinds that have none.
void check_unused(const ConvertOptions& o, const Context& context) {
  const AttentionKind kind = *find_attention_kind(o.attention);
  for (const Field& field : context.fields) {
    const bool of_features = field.name == "features" || field.name == "rank" ||
                             field.name == "window" || field.name == "sinks" ||
                             field.name.starts_with("gate") || field.name == "centre" ||
                             field.name == "init" || field.name == "placement" ||
                             field.name == "rope" || field.name == "iid";
    if (field.given && of_features && !has_features(kind)) {
      throw UsageError(concat("--", field.name, " has no meaning for --attention ", o.attention));
    }
    if (field.given && field.name == "clip" && kind != AttentionKind::kImportance) {
      throw UsageError("--clip has a meaning for --attention importance only");
    }
    if (field.given && field.name == "init" && kind != AttentionKind::kDark) {
      throw UsageError(concat("--init has no meaning for --attention ", o.attention));
    }
    if (field.given && field.name.starts_with("gate") && o.window == 0) {
      throw UsageError(concat(field.name == "gate" && !o.gate ? "--no-gate" : field.flag(),
                              " is about the join of a window and the far field; give --window"));
    }
    if (field.given && field.name.starts_with("gate-") && !o.gate) {
      throw UsageError(concat(field.flag(), " has no meaning with --no-gate"));
    }
  }
}

// Which option asks for moments, or none.
std::string needs_data(const ConvertOptions& o) {
  if (has_log_weights(*find_attention_kind(o.attention))) {
    return "--attention " + o.attention;
  }
  return o.centre ? "--centre" : o.init != "identity" ? "--init " + o.init : "";
}

void check_options(const ConvertOptions& o) {
  const std::string asks = needs_data(o);
  if (!asks.empty() && o.data.empty()) {
    throw UsageError(concat(asks, " needs text to measure on; give --data FILE"));
  }
  if (o.clip && !(*o.clip > 0.0)) {
    throw UsageError(concat("--clip: wanted a number above 0, got ", *o.clip));
  }
  std::error_code failed;
  require(!std::filesystem::equivalent(o.model, o.out, failed), "--out is the model's own folder, ",
          o.model.string(), "; give another");
  const auto inside = std::filesystem::weakly_canonical(o.out, failed)
                          .lexically_relative(std::filesystem::weakly_canonical(o.model, failed));
  require(inside.empty() || *inside.begin() == "..", "--out is inside the model's own folder, ",
          o.model.string(), "; give another");
  require(!std::filesystem::exists(o.out / "config.json", failed), o.out.string(),
          " holds a model already; remove it or give another --out");
}

std::vector<std::shared_ptr<LayerMoments>> moments_of(const ConvertOptions& o,
                                                      Gemma& model,
                                                      Context& context) {
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const EvaluationWindows windows(open_data(o.data, {}, tokenizer, context), o.context);
  const std::int64_t total = std::min(o.tokens, windows.tokens());
  Progress progress = context.progress("measuring", total, "tokens");
  std::int64_t shown = 0;
  auto moments = collect_moments(model, windows, o.tokens, [&](std::int64_t read) {
    context.stop_if_interrupted("stopped; nothing was written");
    progress.advance(read - shown);
    shown = read;
  });
  return moments;
}

// What the gates start from; empty where nothing is to be measured.
std::vector<std::shared_ptr<NearMass>> near_mass_of(const ConvertOptions& o,
                                                    const AttentionSpec& spec,
                                                    Gemma& model,
                                                    Context& context) {
  constexpr std::int64_t kEnough = 8192;  // tokens: a share of attention, not a covariance
  if (!spec.gate || o.gate_bias || o.data.empty()) {
    return {};
  }
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const EvaluationWindows windows(open_data(o.data, {}, tokenizer, context), o.context);
  return collect_near_mass(model, spec, windows, std::min(o.tokens, kEnough), [&](std::int64_t) {
    context.stop_if_interrupted("stopped; nothing was written");
  });
}

GateStart gate_start(const ConvertOptions& o) {
  return {o.gate_scale.value_or(o.data.empty() ? kGateScale : kCalibratedGateScale), o.gate_bias};
}

std::string describe(const AttentionSpec& spec) {
  std::string text(attention_kind_name(spec.kind));
  if (has_features(spec.kind)) {
    text += concat(", ", spec.features, " features");
    text += has_factor(spec.kind) ? concat(", rank ", spec.rank) : "";
    text += spec.centre ? ", centred" : "";
    text +=
        spec.window > 0 ? concat(", window ", spec.window, spec.gate ? " with a gate" : "") : "";
    text += spec.sinks > 0 ? concat(", ", spec.sinks, " sinks") : "";
  }
  return text;
}

// The least number of tokens from which the converted state is smaller than the original cache; 0:
// never.
std::int64_t break_even(const std::function<std::int64_t(std::int64_t)>& before,
                        const std::function<std::int64_t(std::int64_t)>& after) {
  std::int64_t high = 1;
  while (after(high) >= before(high)) {
    high *= 2;
    if (high > (std::int64_t{1} << 30)) {
      return 0;
    }
  }
  std::int64_t low = high / 2;
  while (low + 1 < high) {
    const std::int64_t middle = (low + high) / 2;
    (after(middle) >= before(middle) ? low : high) = middle;
  }
  return high;
}

struct Summary {
  std::vector<std::int64_t> layers;
  AttentionSpec spec;
  std::int64_t context, bytes_before, bytes_after, break_even;
  bool softcap_dropped, window_dropped;
};

void print(const Summary& s,
           const ConvertOptions& o,
           const GemmaConfig& config,
           std::ostream& out) {
  out << "converted " << s.layers.size() << " of " << config.layers << " layers to "
      << describe(s.spec) << ": " << layer_ranges(s.layers) << '\n';
  if (s.softcap_dropped) {
    out << "note: attention soft-capping has no form with random features; the converted layers go "
           "without it\n";
  }
  if (s.window_dropped) {
    out << "note: converted layers that had a sliding window now see the whole sequence\n";
  }
  out << "state per sequence at " << s.context << " tokens: " << bytes_text(s.bytes_after)
      << ", against " << bytes_text(s.bytes_before) << " of keys and values in the exact model\n";
  if (s.break_even > 0) {
    out << "the state is the smaller one from " << s.break_even << " tokens on\n";
  }
  out << "wrote " << o.out.string() << '\n';
}

OrderedJson json_of(const Summary& s, const ConvertOptions& o) {
  OrderedJson object;
  object["out"] = o.out.string(), object["attention"] = o.attention, object["layers"] = s.layers,
  object["context"] = s.context;
  object["state_bytes"] = s.bytes_after, object["exact_state_bytes"] = s.bytes_before,
  object["break_even_tokens"] = s.break_even;
  return object;
}

// Bytes of the exact model's keys and values after so many tokens.
std::int64_t exact_bytes(const GemmaConfig& config, std::int64_t tokens) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    sum += make_mixer(mixer_shape(config, i), {}, 0, 0)->state_bytes(tokens);
  }
  return sum;
}

void convert(const ConvertOptions& o, Context& context) {
  check_options(o);
  check_unused(o, context);
  const std::shared_ptr<Gemma> model = load_gemma(o.model);
  const GemmaConfig before = model->config();
  const AttentionSpec spec = spec_of(o, before);
  const std::vector<std::int64_t> layers = chosen_layers(o, before);
  if (layers.empty()) {
    throw UsageError(o.keep_exact.empty() ? "every layer has a sliding window; choose with --layers"
                                          : "--keep-exact leaves no layer to convert");
  }
  require(spec.kind != AttentionKind::kExact || has_converted_layer(before, layers),
          o.model.string(),
          ": nothing to turn back, these layers are exact already: ", layer_ranges(layers));
  check_spec(spec, before.head_dim);
  const auto moments = needs_data(o).empty() ? std::vector<std::shared_ptr<LayerMoments>>()
                                             : moments_of(o, *model, context);
  const auto masses = near_mass_of(o, spec, *model, context);
  model->set_draws(static_cast<std::uint64_t>(context.common.seed), 0);
  Summary summary = {layers, spec, before.max_positions, 0, 0, 0, false, false};
  for (const std::int64_t i : layers) {
    model->set_attention(i, spec);
    start_gate(*model->block(i)->attention()->mixer(), gate_start(o),
               masses.empty() ? nullptr : masses[i].get());
    if (!moments.empty()) {
      fit_mixer(*model->block(i)->attention()->mixer(), mixer_shape(before, i), spec, *moments[i],
                factor_start(o.init), o.clip);
    }
    summary.softcap_dropped = summary.softcap_dropped ||
                              (before.attn_softcap > 0.0 && spec.kind != AttentionKind::kExact);
    summary.window_dropped =
        summary.window_dropped || (before.is_sliding(i) && spec.kind != AttentionKind::kExact);
  }
  context.stop_if_interrupted("stopped; nothing was written");
  save_gemma(o.out, *model, {.companions = o.model});
  const auto exact = [&](std::int64_t tokens) { return exact_bytes(before, tokens); };
  const auto converted = [&](std::int64_t tokens) { return model->state_bytes(tokens); };
  summary.bytes_before = exact(summary.context), summary.bytes_after = converted(summary.context);
  summary.break_even = spec.kind == AttentionKind::kExact ? 0 : break_even(exact, converted);
  if (context.common.json) {
    context.print_json(json_of(summary, o));
  } else {
    print(summary, o, before, context.out);
  }
}

}  // namespace

Command convert_command() {
  return make_command<ConvertOptions>(
      {.name = "convert",
       .summary = "Give a model linear-time attention",
       .example = "darkformer convert gemma-2b --attention dark --features 256 --centre --data "
                  "text.jsonl --out gemma-2b-dark",
       .details =
           "Writes a new folder; the original is not touched. Kinds: performer (random features), "
           "dark (their covariance is learned; equal to performer until it is trained, unless "
           "--init says otherwise), "
           "lfk (the draws themselves are learned); importance, oprf, sderf and aderf (draws from "
           "a "
           "covariance fitted to --data, weighted so that the kernel stays softmax's; "
           "docs/math.md); "
           "constant (the mean of the past) and random "
           "(random weights) as baselines. Layers with a sliding window "
           "stay exact unless --layers names them. The converted "
           "model wants finetuning: see darkformer finetune."},
      convert);
}

}  // namespace darkformer
