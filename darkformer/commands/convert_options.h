// The options of darkformer convert, and what they mean together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "darkformer/commands/command.h"
#include "darkformer/commands/own_text_file.h"
#include "darkformer/model/conversion.h"
#include "darkformer/model/model_config.h"

namespace darkformer {

struct ConvertOptions {
  std::filesystem::path model;
  std::string attention = "dark";
  std::optional<std::int64_t> features, rank;
  std::int64_t window = 0, sinks = 0;
  bool centre = true, iid = false, gate = true;
  std::optional<double> rank_share;
  std::optional<std::string> init, near;
  std::string placement = "kv-head", rope = "after", far_keys = "beyond";
  std::vector<std::string> layers, keep_exact;
  std::vector<std::filesystem::path> data;
  std::optional<std::filesystem::path> analysis;
  bool automatic = false, fold = false;
  std::optional<std::int64_t> budget;
  std::optional<double> clip, gate_scale, gate_bias;
  std::int64_t tokens = 65536, context = 1024;
  std::optional<std::int64_t> own_tokens;
  std::optional<std::filesystem::path> cache;
  bool fit = true;
  std::vector<std::string> fit_what;
  std::int64_t fit_tokens = 32768, fit_steps = 400, fit_context = 256, keep_worst = 0;
  std::optional<std::filesystem::path> fit_report;
  std::filesystem::path out;

  void visit(auto&& field) {
    field("model", model, "model folder to convert; it is not changed",
          {.positional = true, .required = true});
    field("attention", attention,
          "attention of the converted layers; exact turns a converted model back",
          {.choices = {"exact", "performer", "dark", "lfk", "importance", "oprf", "sderf", "aderf",
                       "hedgehog", "window", "constant", "random"}});
    field("features", features, "features per head (hedgehog: an even number)",
          {.minimum = 1, .empty_means = "the head size"});
    field("rank", rank, "rank of the covariance (dark)",
          {.minimum = 1, .empty_means = "the head size"});
    field("rank-share", rank_share,
          "instead of --rank: in each layer as many directions as hold this share of the variance "
          "of queries and keys, in the head that needs most: above 0, 1 at most (dark)",
          {.empty_means = "by --rank"});
    visit_near(field);
    field("centre", centre,
          "centre queries and keys by their means over --data or --analysis; off where nothing is "
          "fitted and nobody asks for it");
    field("init", init, "where the covariance's factor starts (dark); all but identity read text",
          {.choices = factor_start_names(),
           .empty_means = "leading where a rank and text are given, otherwise identity"});
    field("clip", clip,
          "raise the proposal's inverse covariance to this where the optimal one does not exist "
          "(importance)",
          {.empty_means = "refuse"});
    field("placement", placement, "one set of parameters for each of these",
          {.choices = {"kv-head", "query-head", "layer"}});
    field("rope", rope, "does the factor act before or after the rotation",
          {.choices = {"after", "before"}});
    field("fold", fold,
          "multiply a factor that acts before the rotation into the projections, which cannot be "
          "undone: one started by --init, or without --attention those of a converted MODEL");
    field("iid", iid, "independent draws instead of orthogonal ones");
    field("layers", layers, "layers to convert, counted from 0: numbers, ranges (3-7) or all",
          {.value_name = "LAYERS", .empty_means = "all layers without a sliding window"});
    field("keep-exact", keep_exact, "layers to leave exact, counted from 0: numbers or ranges",
          {.value_name = "LAYERS"});
    visit_fit(field);
    visit_reading(field);
    field("out", out, "folder to write", {.required = true, .value_name = "DIR"});
  }

  // Where the converted layers are brought close to the exact ones.
  void visit_fit(auto&& field) {
    field("fit", fit,
          "bring each head's attention close to the exact one on text, without training a weight "
          "of the model (dark, lfk, hedgehog, and the gate of any kind)");
    field("fit-what", fit_what, "what is fitted, of what the attention has",
          {.value_name = "PARTS",
           .choices = {"factor", "key-factor", "draws", "centres", "gate"},
           .empty_means = "all of it"});
    field("fit-tokens", fit_tokens,
          "tokens of text to fit to, spread evenly over it; a tenth is held out to measure on",
          {.minimum = 4});
    field("fit-steps", fit_steps, "steps of the fit of each head", {.minimum = 1});
    field("fit-context", fit_context,
          "tokens of a window of the fit, at most half of --fit-tokens and what the model was made "
          "for; time and memory grow with its square",
          {.minimum = 2});
    field("keep-worst", keep_worst,
          "so many of the fitted layers stay exact: those whose fit comes out worst",
          {.minimum = 0});
    field(
        "fit-report", fit_report,
        "folder for results.json and report.html: how far each head is from the exact one, before "
        "and after",
        {.value_name = "DIR", .empty_means = "none"});
  }

  // The keys that stay exact, and how they are joined to the others.
  void visit_near(auto&& field) {
    field("window", window, "nearest keys that stay exact, the token's own included",
          {.minimum = 0});
    field("sinks", sinks, "first keys of the sequence that stay exact", {.minimum = 0});
    field("near", near,
          "kernel of the exact keys (--window, --sinks): the model's own, or through the learned "
          "factor as the far ones",
          {.choices = {"model", "factor"},
           .empty_means = "model where there is a factor (dark, aderf, hedgehog) after the "
                          "rotation of a layer that is not folded, otherwise factor"});
    field("far-keys", far_keys,
          "keys that the features see beside a window or sinks: those beyond, or all",
          {.choices = {"beyond", "all"}});
    field("gate", gate,
          "with a window: join it to the far field by a learned gate (off: one common normaliser)");
    field("gate-scale", gate_scale,
          "where the gate's weight c on the difference of the normalisers starts: 1 is one common "
          "normaliser, 0 a plain gate",
          {.minimum = -1000,
           .maximum = 1000,
           .empty_means = "0 with --data or --analysis, 0.5 without"});
    field("gate-bias", gate_bias, "where the gate's bias starts",
          {.minimum = -1000,
           .maximum = 1000,
           .empty_means = "from the attention within the window on --data or by --analysis, or 0"});
  }

  // Where means, covariances and advice come from.
  void visit_reading(auto&& field) {
    field("data", data,
          "text to fit to, and to take means and covariances from (.txt, .jsonl, .json.gz, .zst or "
          "token shards)",
          {.empty_means = "where they are needed and there is no --analysis, the model's own text, "
                          "which it writes first"});
    field("own-tokens", own_tokens, kOwnTokensHelp, kOwnTokensTraits);
    field("tokens", tokens, "tokens of --data to read", {.minimum = 1});
    field("context", context, "tokens per window while reading --data", {.minimum = 1});
    field("analysis", analysis,
          "analysis.json of this model (or its folder), to take means and covariances from instead "
          "of --data",
          {.empty_means = "none"});
    field("auto", automatic,
          "let --analysis choose attention, features and window of each layer, or keep it exact");
    field("budget", budget,
          "with --auto: bytes that the decoding state may take at the model's longest text",
          {.value_name = "BYTES", .minimum = 1, .empty_means = "as the analysis advises"});
    field("cache", cache, "folder for tokenised texts",
          {.value_name = "DIR", .empty_means = "~/.cache/darkformer"});
  }
};

// The options with what depends on others decided: whether something is fitted, and with it
// centring. UsageError: --fit where nothing can be.
ConvertOptions settled(const ConvertOptions& given, const Context& context);

// Whether --fit-what names the part, or all are fitted.
bool fits_part(const ConvertOptions& options, const char* part);

// Is the option set by the user?
bool was_given(const Context& context, const std::string& name);

// UsageError where options exclude each other, mean nothing together or lack another; Error where
// --out would harm a folder.
void check_options(const ConvertOptions& options, const Context& context);

// UsageError: no share, or an attention without a covariance to learn.
void check_rank_share(double share, const std::string& attention);

// The attention that the options describe. UsageError: it cannot be.
AttentionSpec spec_of(const ConvertOptions& options, const ModelConfig& config, std::int64_t layer);

// The layers that --layers and --keep-exact leave, in order. UsageError: none.
std::vector<std::int64_t> chosen_layers(const ConvertOptions& options, const ModelConfig& config);

// UsageError: --keep-worst would leave none of them.
void check_keep_worst(const ConvertOptions& options, const ModelConfig& config);

// Where the factor starts: --init, or what it is without one.
std::string start_of(const ConvertOptions& options);

// Which option asks for moments, or none.
std::string needs_moments(const ConvertOptions& options);

// Whether the model has to write the text itself: an option asks for some, and none is given.
bool needs_own_text(const ConvertOptions& options, const Context& context);

// --fold alone: the factors that MODEL has.
bool folds_present(const ConvertOptions& options, const Context& context);

}  // namespace darkformer
