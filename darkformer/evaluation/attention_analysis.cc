// Moments first, then a probe for each layer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attention_analysis.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/checksum.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/estimators/rank_correlation.h"
#include "darkformer/evaluation/collect_moments.h"
#include "darkformer/evaluation/layer_probe.h"
#include "darkformer/evaluation/observation.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

constexpr std::int64_t kHeldOutShare = 8;  // one window of so many
constexpr std::int64_t kLeastDraws = 8;    // sets of draws that an error is the mean of

struct ChosenWindows {
  std::vector<std::int64_t> fitted, held_out;
};

std::int64_t window_count(const EvaluationWindows& windows, std::int64_t tokens) {
  return std::min(windows.whole(), std::max<std::int64_t>(2, tokens / windows.context()));
}

// Evenly over the text; the last of each eight is held out.
ChosenWindows choose(const EvaluationWindows& windows, std::int64_t tokens) {
  require(windows.whole() >= 2, "the text has ", count_text(windows.tokens(), "token"),
          "; an analysis needs two windows of --context ", windows.context(),
          ", one to fit and one to measure: give more text or a shorter --context");
  const std::int64_t count = window_count(windows, tokens);
  const std::int64_t share = std::min(kHeldOutShare, count);
  ChosenWindows chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t window = i * windows.whole() / count;
    const auto held = static_cast<std::int64_t>(chosen.held_out.size());
    (i % share == share - 1 && held < kMostHeldOut ? chosen.held_out : chosen.fitted)
        .push_back(window);
  }
  return chosen;
}

// Layers may differ in it; one list of features serves all.
std::int64_t largest_head(const ModelConfig& config) {
  return std::max(config.head_dim, config.full_head_dim);
}

std::vector<std::int64_t> default_features(std::int64_t D) {
  return {std::max<std::int64_t>(1, D / 2), D, 2 * D, 4 * D};
}

void check_model(const ModelConfig& config, const AnalysisOptions& options) {
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const AttentionKind kind = config.attention[static_cast<std::size_t>(i)].kind;
    require(
        kind == AttentionKind::kExact, "layer ", i, " has attention ", attention_kind_name(kind),
        " already; an analysis looks at exact attention (convert --attention exact turns back)");
  }
  require(std::is_sorted(options.features.begin(), options.features.end()) &&
              std::all_of(options.features.begin(), options.features.end(),
                          [](std::int64_t f) { return f >= 1; }),
          "numbers of features must be 1 or more and rise");
}

// Windows of 16 ... 512 that are narrow enough for the context to show what is beyond them.
std::vector<std::int64_t> joined_windows(std::int64_t context) {
  std::vector<std::int64_t> widths = {0};
  for (const std::int64_t width : {16, 32, 64, 128}) {
    if (2 * width <= context) {
      widths.push_back(width);
    }
  }
  return widths;
}

std::vector<Correlation> correlations_of(const ModelAnalysis& analysis) {
  std::vector<Correlation> found;
  for (std::size_t f = 0; f < analysis.features.size(); ++f) {
    std::vector<double> predicted, moments, measured;
    for (const LayerAnalysis& layer : analysis.layers) {
      for (const EstimatorAnalysis& estimator : layer.estimators) {
        for (const HeadEstimate& head : estimator.heads) {
          if (estimator.measured && std::isfinite(head.measured[f])) {
            predicted.push_back(head.predicted[f]);
            moments.push_back(head.expected_log_moment);
            measured.push_back(head.measured[f]);
          }
        }
      }
    }
    if (measured.size() >= 2) {
      found.push_back({analysis.features[f], estimators::rank_correlation(predicted, measured),
                       estimators::rank_correlation(moments, measured)});
    }
  }
  return found;
}

// Reads windows under an observer and counts their tokens.
class Reading {
 public:
  Reading(Decoder& model,
          const EvaluationWindows& windows,
          const std::function<void(std::int64_t)>& each)
      : model_(model), windows_(windows), each_(each) {}

  std::int64_t read(const std::vector<std::int64_t>& chosen,
                    const Observation::Observer& observer) {
    Observation observation(model_, observer);
    const std::int64_t before = tokens_;
    for (const std::int64_t window : chosen) {
      tokens_ += observation.read(windows_, window);
      if (each_) {
        each_(tokens_);
      }
    }
    return tokens_ - before;
  }

 private:
  Decoder& model_;
  const EvaluationWindows& windows_;
  const std::function<void(std::int64_t)>& each_;
  std::int64_t tokens_ = 0;
};

}  // namespace

std::int64_t analysis_tokens(const EvaluationWindows& windows, const AnalysisOptions& options) {
  return window_count(windows, options.tokens) * windows.context();
}

ModelAnalysis analyze_model(Decoder& model,
                            const EvaluationWindows& windows,
                            const AnalysisOptions& options,
                            const std::function<void(std::int64_t)>& each) {
  const ModelConfig& config = model.config();
  check_model(config, options);
  const ChosenWindows chosen = choose(windows, options.tokens);
  const auto held = static_cast<std::int64_t>(chosen.held_out.size());
  ModelAnalysis analysis;
  analysis.fingerprint = to_hex(fingerprint(model));
  analysis.context = windows.context();
  analysis.target = options.target;
  analysis.features =
      options.features.empty() ? default_features(largest_head(config)) : options.features;
  analysis.windows = {16, 32, 64, 128, 256, 512};
  analysis.sinks = {1, 4};
  analysis.draws = (kLeastDraws + held - 1) / held;
  analysis.moments = empty_moments(config);

  Reading reading(model, windows, each);
  analysis.fitted_tokens =
      reading.read(chosen.fitted, [&](std::int64_t layer, const MixerCall& call) {
        analysis.moments[static_cast<std::size_t>(layer)]->add(call.q, call.k);
      });
  const ProbeOptions probe{
      analysis.features, analysis.windows, analysis.sinks, joined_windows(windows.context()),
      options.target,    analysis.draws,   options.seed};
  std::vector<LayerProbe> probes;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    probes.emplace_back(mixer_shape(config, i), *analysis.moments[static_cast<std::size_t>(i)],
                        probe);
  }
  analysis.held_out_tokens =
      reading.read(chosen.held_out, [&](std::int64_t layer, const MixerCall& call) {
        probes[static_cast<std::size_t>(layer)].measure(call);
      });
  for (const LayerProbe& layer : probes) {
    analysis.layers.push_back(layer.result());
  }
  analysis.correlations = correlations_of(analysis);
  return analysis;
}

namespace {

// Converted layers that do without training, and those that do not.
struct Counts {
  explicit Counts(const std::vector<LayerAnalysis>& layers) {
    for (const LayerAnalysis& layer : layers) {
      if (layer.advice.spec.kind != AttentionKind::kExact) {
        ++(layer.advice.zero_shot ? ready : trained);
      }
    }
  }
  std::int64_t ready = 0, trained = 0;
};

}  // namespace

bool ModelAnalysis::zero_shot() const {
  const Counts counts(layers);
  return counts.ready > 0 && counts.trained == 0;
}

std::string ModelAnalysis::verdict() const {
  const Counts counts(layers);
  if (counts.ready == 0 && counts.trained == 0) {
    return "No layer should be converted with what was tried: nothing will work zero-shot, and "
           "training would start from next to nothing.";
  }
  if (counts.trained == 0) {
    return "Zero-shot conversion will work: the converted layers keep their outputs within the "
           "target without any training.";
  }
  if (counts.ready == 0) {
    return "Nothing will work zero-shot: a converted model must be finetuned before it is of use.";
  }
  return concat("Zero-shot conversion will work for ", count_text(counts.ready, "layer"),
                " only; to be finetuned: ", counts.trained, ".");
}

}  // namespace darkformer
