// What is known of a layer before it is converted: its inputs, where its attention looks, how far
// every estimator is off, and what to convert it to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/estimators/anisotropy.h"
#include "darkformer/evaluation/attention_rows.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer {

// Where the optimal proposal of `importance` does not exist, its inverse is raised to this.
inline constexpr double kProposalClip = 0.1;

// Errors are those of the attention's output on held-out tokens, sqrt(sum |o_hat - o|^2 / sum
// |o|^2): 0.1 is 10 %. Infinite or NaN: there is none, or it was not measured.

// An estimator in one query head.
struct HeadEstimate {
  double expected_log_moment = 0.0;  // E log E[x^2] over independent pairs, from the moments alone
  double log_moment = 0.0;           // log E[x^2] of one draw, mean over attended pairs
  double sample_size = 0.0;          // effective, of D draws, mean over attended pairs
  double features_needed = 0.0;      // for the target, as predicted
  std::vector<double> predicted, measured;  // errors for each number of features
};

struct EstimatorAnalysis {
  std::string name;                 // "sderf, centred"
  AttentionSpec spec;               // kind and centre; features and rank are 0
  bool measured = false;            // false: predicted only, there is no such attention
  std::vector<HeadEstimate> heads;  // (H)
  std::vector<double> errors;       // of all heads together, for each number of features
};

// An attention this layer could have.
struct LayerOption {
  AttentionSpec spec;
  double error = 0.0;  // measured
};

struct LayerAdvice {
  AttentionSpec spec;
  double error = 0.0;      // measured, of the layer with this attention and no training
  bool zero_shot = false;  // it is below the target without training, or the layer stays exact
  std::string reason;
};

struct LayerAnalysis {
  std::int64_t layer = 0;
  std::int64_t sliding_window = 0;              // the layer's own; 0: it sees everything
  std::vector<estimators::Anisotropy> queries;  // (H), kernel inputs
  std::vector<estimators::Anisotropy> keys;     // (G)
  std::vector<estimators::Anisotropy> inputs;   // (G): both, pooled: Lambda of whitening
  AttentionReach reach;                         // (H) lists
  std::vector<double> constant;                 // (H): error of the mean of the values seen
  double constant_error = 0.0;                  // of all heads together
  std::vector<EstimatorAnalysis> estimators;    // none in layers with a sliding window
  std::vector<LayerOption> options;
  LayerAdvice advice;
};

// Which of the options to take, or to stay exact, and why.
LayerAdvice advise(const LayerAnalysis& layer, double target);

}  // namespace darkformer
