// One layer under analysis: fitted to moments, then tried on held-out windows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/evaluation/layer_analysis.h"
#include "darkformer/evaluation/predicted_error.h"
#include "darkformer/model/conversion.h"
#include "darkformer/model/observed_mixer.h"

namespace darkformer {

// What is measured, the same for all layers.
struct ProbeOptions {
  std::vector<std::int64_t> features;  // F, rising
  std::vector<std::int64_t> windows;   // how much attention lies within each of these
  std::vector<std::int64_t> sinks;     // and on so many first keys
  std::vector<std::int64_t> joined;    // windows to be tried together with features
  double target = 0.1;
  std::int64_t draws = 1;  // sets of draws for each window of tokens and each F
  std::uint64_t seed = 1;
};

// Memory: sums, and for each estimator 3 numbers for each sampled query, so that it grows with the
// windows it is shown and with nothing else; whoever reads long texts shows it a bounded number.
class LayerProbe {
 public:
  // Fits every estimator. A layer with a sliding window gets none. Errors as fit_mixer.
  LayerProbe(const MixerShape& shape, const LayerMoments& moments, ProbeOptions options);

  // A held-out window, one sequence; `call.out` is exact attention's.
  void measure(const MixerCall& call);

  LayerAnalysis result() const;

 private:
  struct Candidate {
    std::string name;
    AttentionSpec spec;                                 // kind and centre
    std::vector<estimators::FeatureFamily> families;    // (G)
    bool runs = true;                                   // there is an attention of this kind
    std::vector<std::vector<PredictedRows>> predicted;  // (H) lists, one entry for each window
    std::vector<std::vector<double>> error2;            // (H): predicted, summed, for each F
    std::vector<double> log_moments, sample_sizes;      // (H): sums over pairs
    std::vector<at::Tensor> errors;                     // one (H) for each F: sum |o_hat - o|^2
  };
  // A window joined to features.
  struct Trial {
    std::size_t candidate;
    AttentionSpec spec;
    at::Tensor errors;  // (H)
  };

  void add_candidate(AttentionKind kind, bool centre, const LayerMoments& moments);
  void add_theory(const LayerMoments& moments);
  void add_inputs(const LayerMoments& moments);
  void predict(const AttentionRows& rows, std::int64_t kv_head);
  void look_at_pairs(const AttentionRows& rows, std::int64_t kv_head);
  void choose_windows();
  void try_features(const MixerCall& call);
  at::Tensor white_draws(std::int64_t features, std::int64_t draw) const;
  double layer_error(const at::Tensor& errors) const;
  double head_error(const at::Tensor& errors, std::int64_t head) const;
  HeadEstimate estimate_of(const Candidate& candidate, std::int64_t head) const;
  std::vector<LayerOption> options_of() const;

  MixerShape shape_;
  ProbeOptions options_;
  LayerAnalysis analysis_;  // what the moments say; the rest comes with result()
  std::vector<estimators::InputMoments> moments_;  // (G)
  std::vector<Candidate> candidates_;
  std::vector<Trial> trials_;
  std::vector<AttentionReach> reach_;  // (G) for each window, one after the other
  std::vector<double> sampled_size_;   // (H): sum |o|^2 over sampled queries
  std::vector<std::int64_t> pairs_;    // (H)
  at::Tensor size_, constant_;         // (H): sums |o|^2 and |mean of v - o|^2 over all tokens
  std::int64_t seen_ = 0;              // windows
};

}  // namespace darkformer
