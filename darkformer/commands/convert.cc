// darkformer convert: a model folder with another attention in chosen layers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/base/system_info.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/attention_text.h"
#include "darkformer/commands/convert_fit.h"
#include "darkformer/commands/convert_gate.h"
#include "darkformer/commands/convert_options.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/layer_list.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/collect_moments.h"
#include "darkformer/evaluation/conversion_plan.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/near_mass.h"
#include "darkformer/model/nonfinite.h"

namespace darkformer {
namespace {

using Moments = std::vector<std::shared_ptr<LayerMoments>>;

// What is done to which layers.
struct Plan {
  std::vector<std::int64_t> layers;
  std::vector<AttentionSpec> specs;  // of these layers
  Moments moments;                   // of all layers; empty: none are needed
  NearMasses masses;                 // of all layers of the model, or none
  FitStart fit;
};

bool has_converted_layer(const ModelConfig& config, const std::vector<std::int64_t>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](std::int64_t i) {
    return config.attention[static_cast<std::size_t>(i)].kind != AttentionKind::kExact;
  });
}

Moments moments_of(const ConvertOptions& o, Decoder& model, Context& context) {
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const EvaluationWindows windows(
      open_data(o.data, o.cache.value_or(std::filesystem::path()), tokenizer, context), o.context);
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

// Gates start from the attention that the analysis found within their windows.
NearMasses masses_of(const AnalysisAdvice& advice, const Plan& plan) {
  NearMasses masses(advice.layers.size());
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.specs[i].gate) {
      const auto layer = static_cast<std::size_t>(plan.layers[i]);
      masses[layer] = advice.near_mass(layer, plan.specs[i]);
    }
  }
  return masses;
}

// What the analysis chooses, for the layers that may be converted.
Plan automatic_plan(const ConvertOptions& o, const Decoder& model) {
  const ModelConfig& config = model.config();
  const AnalysisAdvice advice = read_analysis(*o.analysis, model);
  std::vector<bool> fixed(static_cast<std::size_t>(config.layers), true);
  for (const std::int64_t i : chosen_layers(o, config)) {
    fixed[static_cast<std::size_t>(i)] = false;
  }
  const std::vector<AttentionSpec> specs = plan_layers(advice, config, fixed, o.budget);
  Plan plan{{}, {}, advice.moments, {}, {.clip = kProposalClip}};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].kind != AttentionKind::kExact) {
      plan.layers.push_back(static_cast<std::int64_t>(i));
      plan.specs.push_back(specs[i]);
    }
  }
  require(!plan.layers.empty(), advice.file,
          o.budget ? ": the budget holds every layer as exact attention"
                   : ": advises to keep every layer exact",
          "; nothing to convert (without --auto and --budget every layer is)");
  plan.masses = masses_of(advice, plan);
  return plan;
}

// The rank of each layer that holds this share of the variance of its kernel inputs.
void set_ranks(double share, const ModelConfig& config, Plan& plan) {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const auto layer = static_cast<std::size_t>(plan.layers[i]);
    plan.specs[i].rank = rank_holding(share, *plan.moments[layer],
                                      mixer_shape(config, plan.layers[i]), plan.specs[i]);
  }
}

Plan plan_of(const ConvertOptions& o, Decoder& model, Context& context) {
  if (o.automatic) {
    return automatic_plan(o, model);
  }
  const ModelConfig& config = model.config();
  Plan plan;
  plan.layers = chosen_layers(o, config);
  for (const std::int64_t i : plan.layers) {
    plan.specs.push_back(spec_of(o, config, i));
  }
  const AttentionSpec& spec = plan.specs.front();
  require(spec.kind != AttentionKind::kExact || has_converted_layer(config, plan.layers),
          o.model.string(),
          ": nothing to turn back, these layers are exact already: ", layer_ranges(plan.layers));
  if (o.analysis) {  // refused if it is another model's, needed or not
    const AnalysisAdvice advice = read_analysis(*o.analysis, model);
    plan.moments = needs_moments(o).empty() ? Moments() : advice.moments;
    plan.masses = masses_of(advice, plan);
  } else {
    const bool reads = !needs_moments(o).empty() && (!o.fit || o.rank_share);
    plan.moments = reads ? moments_of(o, model, context) : Moments();
    plan.masses = o.fit ? NearMasses() : near_masses(o, spec, model, context);
  }
  if (o.rank_share) {
    set_ranks(*o.rank_share, config, plan);
  }
  plan.fit = {factor_start(start_of(o)), o.clip};
  return plan;
}

// --fold alone: the dark layers that are there.
std::vector<std::int64_t> dark_layers(const ConvertOptions& o, const ModelConfig& config) {
  std::vector<std::int64_t> found;
  for (const std::int64_t i : chosen_layers(o, config)) {
    if (config.attention[static_cast<std::size_t>(i)].kind == AttentionKind::kDark) {
      found.push_back(i);
    }
  }
  require(!found.empty(), o.model.string(),
          ": has no dark layer whose factor could be folded; convert it with --attention dark "
          "--rope before and --init");
  return found;
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
  std::vector<AttentionSpec> specs;  // of these layers, as written
  std::int64_t context, bytes_before, bytes_after, break_even;
  bool softcap_dropped, window_dropped, folded;
  ConversionFit fit;
  std::vector<std::int64_t> kept;  // exact after all, by --keep-worst
};

// "layer 0: 0.04, layer 1: 0.07"
std::string layers_text(const ConversionFit& fit) {
  std::ostringstream text;
  text << std::setprecision(2);
  for (std::size_t i = 0; i < fit.fits.size(); ++i) {
    text << (i == 0 ? "" : ", ") << "layer " << fit.layers[i] << ": "
         << ConversionFit{{fit.layers[i]}, {fit.fits[i]}}.after();
  }
  return text.str();
}

void print(const Summary& s,
           const ConvertOptions& o,
           const ModelConfig& config,
           std::ostream& out) {
  std::map<std::string, std::vector<std::int64_t>> kinds;
  for (std::size_t i = 0; i < s.layers.size(); ++i) {
    kinds[attention_text(s.specs[i])].push_back(s.layers[i]);
  }
  for (const auto& [words, layers] : kinds) {
    out << "converted " << layers.size() << " of " << count_text(config.layers, "layer") << " to "
        << words << ": " << layer_ranges(layers) << '\n';
  }
  if (!s.fit.fits.empty()) {
    out << "fitted to the exact attention: mean row KL " << std::setprecision(3) << s.fit.before()
        << " -> " << s.fit.after() << " on held-out text (" << layers_text(s.fit) << ")\n";
  }
  if (!s.kept.empty()) {
    out << "left exact, where the fit came out worst: " << layer_ranges(s.kept) << '\n';
  }
  if (s.folded) {
    out << "note: the projections of these layers are changed for good; keep the original folder\n";
  }
  if (s.softcap_dropped) {
    out << "note: attention soft-capping has no form with random features; the converted layers go "
           "without it\n";
  }
  if (s.window_dropped) {
    out << "note: converted layers that had a sliding window now see the whole sequence\n";
  }
  out << "state per sequence at " << count_text(s.context, "token") << ": "
      << bytes_text(s.bytes_after) << ", against " << bytes_text(s.bytes_before)
      << " of keys and values in the exact model\n";
  if (s.break_even > 0) {
    out << "the state is the smaller one from " << count_text(s.break_even, "token") << " on\n";
  }
  out << "wrote " << o.out.string() << '\n';
}

OrderedJson json_of(const Summary& s, const ConvertOptions& o) {
  OrderedJson object;
  object["out"] = o.out.string(), object["attention"] = o.automatic ? "auto" : o.attention;
  object["layers"] = s.layers;
  object["specs"] = OrderedJson::array();
  for (const AttentionSpec& spec : s.specs) {
    object["specs"].push_back(attention_spec_json(spec));
  }
  if (!s.fit.fits.empty()) {
    object["fit"] = fit_json(s.fit);
  }
  if (!s.kept.empty()) {
    object["kept_exact"] = s.kept;
  }
  object["context"] = s.context;
  object["state_bytes"] = s.bytes_after, object["exact_state_bytes"] = s.bytes_before,
  object["break_even_tokens"] = s.break_even;
  return object;
}

// Bytes of the exact model's keys and values after so many tokens.
std::int64_t exact_bytes(const ModelConfig& config, std::int64_t tokens) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    sum += config.owns_keys(i) ? mixer_state_bytes(mixer_shape(config, i), {}, tokens) : 0;
  }
  return sum;
}

// One layer, its means and near mass from what it reads of the text of the fit.
void convert_looked_at(const ConvertOptions& o,
                       const Plan& plan,
                       std::int64_t layer,
                       const RowExamples& examples,
                       Decoder& model) {
  const auto place = static_cast<std::size_t>(
      std::find(plan.layers.begin(), plan.layers.end(), layer) - plan.layers.begin());
  const AttentionSpec& spec = plan.specs[place];
  const MixerShape shape = mixer_shape(model.config(), layer);
  if (model.config().owns_keys(layer)) {
    LayerMoments seen(shape.heads, shape.kv_heads, shape.head_dim);
    seen.add(examples.q, examples.k);
    convert_layer(
        model, layer, spec,
        plan.moments.empty() ? &seen : plan.moments[static_cast<std::size_t>(layer)].get(),
        plan.fit);
  }
  NearMass near(shape, spec.window, spec.sinks);
  if (spec.gate) {
    near.add(examples.q, examples.k);
  }
  start_gate_of(o, layer, near.tokens() > 0 ? near.mean() : std::vector<double>(), model);
}

void convert_all(const ConvertOptions& o, const Plan& plan, Decoder& model) {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const std::int64_t at = plan.layers[i];
    const auto layer = static_cast<std::size_t>(at);
    if (model.config().owns_keys(at)) {  // others have the attention of the one that does
      convert_layer(model, at, plan.specs[i],
                    plan.moments.empty() ? nullptr : plan.moments[layer].get(), plan.fit);
    }
    start_gate_of(o, at, plan.masses.empty() ? std::vector<double>() : plan.masses[layer], model);
  }
}

// The layers that were touched, what was fitted, and what of it is exact again.
struct Change {
  std::vector<std::int64_t> layers;
  ConversionFit fit;
  std::vector<std::int64_t> kept;
};

// Turns the layers with the worst fits back to exact attention, each with those that share its keys.
void keep_worst_exact(std::int64_t count, Decoder& model, Change& change) {
  const auto worst = worst_layers(model.config(), change.fit.layers, change.fit.fits,
                                  static_cast<std::size_t>(count));
  for (const std::int64_t owner : worst) {
    model.set_attention(owner, {});
  }
  const auto is_kept = [&](std::int64_t layer) {
    return std::find(worst.begin(), worst.end(), model.config().key_layer(layer)) != worst.end();
  };
  std::copy_if(change.layers.begin(), change.layers.end(), std::back_inserter(change.kept),
               is_kept);
  std::erase_if(change.layers, is_kept);
}

Change convert_layers(const ConvertOptions& o, Decoder& model, Context& context) {
  const Plan plan = plan_of(o, model, context);
  model.set_draws(static_cast<std::uint64_t>(context.common.seed), 0);
  if (!o.fit) {
    convert_all(o, plan, model);
    return {plan.layers, {}, {}};
  }
  const auto convert = [&](std::int64_t layer, const RowExamples& examples) {
    convert_looked_at(o, plan, layer, examples, model);
  };
  Change change{plan.layers, fit_layers(o, plan.layers, model, convert, context), {}};
  keep_worst_exact(o.keep_worst, model, change);
  return change;
}

// Converts, fits and folds.
Change change_layers(const ConvertOptions& o, Decoder& model, Context& context) {
  Change change;
  if (folds_present(o, context)) {
    change.layers = dark_layers(o, model.config());
  } else {
    change = convert_layers(o, model, context);
  }
  for (const std::int64_t i : change.layers) {
    if (o.fold) {
      fold_factor(model, i);
    }
  }
  return change;
}

Summary summary_of(const ModelConfig& before,
                   const Decoder& model,
                   const Change& change,
                   bool folded) {
  Summary summary{change.layers, {},     before.max_positions, 0,          0, 0, false,
                  false,         folded, change.fit,           change.kept};
  bool converts = false;
  for (const std::int64_t i : change.layers) {
    summary.specs.push_back(model.config().attention[static_cast<std::size_t>(i)]);
    const bool converted = summary.specs.back().kind != AttentionKind::kExact;
    converts = converts || converted;
    summary.softcap_dropped = summary.softcap_dropped || (before.attn_softcap > 0.0 && converted);
    summary.window_dropped = summary.window_dropped || (before.is_sliding(i) && converted);
  }
  const auto exact = [&](std::int64_t tokens) { return exact_bytes(before, tokens); };
  const auto converted = [&](std::int64_t tokens) { return model.state_bytes(tokens); };
  summary.bytes_before = exact(summary.context), summary.bytes_after = converted(summary.context);
  summary.break_even = converts ? break_even(exact, converted) : 0;
  return summary;
}

void convert(const ConvertOptions& given, Context& context) {
  ConvertOptions o = settled(given, context);
  check_options(o, context);
  if (given.fit && !o.fit && o.attention == "dark" && o.rope == "before") {
    log_info(
        "nothing is fitted: rows of attention are made of rotated queries and keys, which a "
        "factor before the rotation does not see");
  }
  check_keep_worst(o, read_model_config(o.model / "config.json"));
  if (needs_own_text(o, context)) {
    o.data = {own_text_file({o.model, o.own_tokens.value_or(kOwnTextTokens), o.context,
                             o.cache.value_or(std::filesystem::path())},
                            context)};
  }
  for (const std::filesystem::path& file : o.data) {  // read only where something is measured
    require(std::filesystem::exists(file), file.string(), ": there is no such file");
  }
  const std::shared_ptr<Decoder> model = load_model(o.model);
  const Nonfinite found = find_nonfinite(*model);
  require(found.weight.empty(), o.model.string(), ": ", found.cause(),
          "; a converted model would be as broken");
  const ModelConfig before = model->config();
  require(!o.fold || !before.parts().qk_norm, o.model.string(),
          ": queries and keys are normed between their projections and the factor; nothing can be "
          "folded");
  const Change change = change_layers(o, *model, context);
  context.stop_if_interrupted("stopped; nothing was written");
  save_model(o.out, *model, {.companions = o.model});
  const Summary summary = summary_of(before, *model, change, o.fold);
  if (o.fit) {
    finish_fit(o, change.fit, context);
  }
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
       .example =
           "darkformer convert gemma-2b --window 16 --data text.jsonl --out gemma-2b-dark\n"
           "darkformer convert gemma-2b --attention dark --features 256 --fit-report fit --data "
           "text.jsonl --out gemma-2b-fitted\n"
           "darkformer convert gemma-2b --analysis analysis --auto --out gemma-2b-advised",
       .details =
           "Writes a new folder; the original is not touched. Kinds: performer (random features), "
           "dark (their covariance is learned), "
           "lfk (the draws themselves are learned); importance, oprf, sderf and aderf (draws from "
           "a "
           "covariance fitted to --data, weighted so that the kernel stays softmax's; "
           "docs/math.md); "
           "hedgehog (features that are learned, softmaxes of linear maps: another method, to "
           "compare with); "
           "window (the nearest --window keys and no other), constant (the mean of the past) and "
           "random (random weights) as baselines. Layers with a sliding window "
           "stay exact unless --layers names them. With --auto the analysis that darkformer "
           "analyze "
           "wrote chooses, within --budget. Before anything is trained, the attention is fitted: "
           "each "
           "head is brought close to the exact one on text, without a gradient through the model; "
           "stopped, the same command goes on. What is fitted to text and is given neither --data "
           "nor "
           "--analysis is fitted to text that the model writes itself (see darkformer sample). The "
           "converted "
           "model is better after finetuning: see darkformer finetune."},
      convert);
}

}  // namespace darkformer
