// A whole model before it is converted: one pass over text, then for every layer what estimators of
// its attention are worth and what to convert it to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "darkformer/evaluation/layer_analysis.h"
#include "darkformer/model/moments.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {

class Decoder;

struct AnalysisOptions {
  std::int64_t tokens = 65536;              // of the text, in windows spread evenly over it
  std::vector<std::int64_t> features = {};  // rising; empty: D/2, D, 2D and 4D
  double target = 0.1;                      // the error that counts as good without training
  std::uint64_t seed = 1;
};

// Spearman's correlation of predicted and measured errors over layers, heads and estimators.
struct Correlation {
  std::int64_t features = 0;
  double predicted = 0.0;  // by predicted_error.h
  double moments = 0.0;    // by HeadEstimate::expected_log_moment alone: Gaussian theory
};

struct ModelAnalysis {
  std::string fingerprint;  // of the model, hexadecimal
  std::int64_t context = 0, fitted_tokens = 0, held_out_tokens = 0, draws = 0;
  double target = 0.0;
  std::vector<std::int64_t> features, windows, sinks;  // what the lists of the layers belong to
  std::vector<LayerAnalysis> layers;
  std::vector<Correlation> correlations;  // for each number of features
  std::vector<std::shared_ptr<LayerMoments>> moments;

  // Does the advice, which converts some layer, do without training?
  bool zero_shot() const;
  // In one sentence: what to expect.
  std::string verdict() const;
};

// Reads windows of the text once each: of every eight the last one is held out (at most
// kMostHeldOut), the others give moments; then all estimators are fitted and tried on those held
// out. Memory does not grow with the text. `each` is called with the tokens read so far, of
// analysis_tokens(windows, options); what it throws ends the pass. The model is as before
// afterwards.
// Error: a layer is not exact, fewer than two whole windows, too few tokens for a covariance.
ModelAnalysis analyze_model(Decoder& model,
                            const EvaluationWindows& windows,
                            const AnalysisOptions& options,
                            const std::function<void(std::int64_t)>& each = {});
std::int64_t analysis_tokens(const EvaluationWindows& windows, const AnalysisOptions& options);

inline constexpr std::int64_t kMostHeldOut = 8;

}  // namespace darkformer
