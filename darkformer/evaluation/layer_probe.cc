// Estimators fitted, predicted and run, one window after the other.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/layer_probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/evaluation/measured_error.h"
#include "darkformer/model/matrix_tensors.h"
#include "darkformer/ops/draw_features.h"

namespace darkformer {
namespace {

using at::Tensor;
using estimators::EstimatorKind;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kQueries = 16;   // sampled of each head in each window
constexpr double kMostFeatures = 1e15;  // more is no number of features any more
constexpr double kSinkMass = 0.05;      // on kSinks keys, from which they are kept exact
constexpr std::int64_t kSinks = 4;
constexpr AttentionKind kKinds[] = {AttentionKind::kPerformer, AttentionKind::kImportance,
                                    AttentionKind::kOprf, AttentionKind::kSderf,
                                    AttentionKind::kAderf};

AttentionSpec full_spec(const AttentionSpec& kind, std::int64_t features, std::int64_t D) {
  AttentionSpec spec = kind;
  spec.features = features;
  spec.rank = D;
  return spec;
}

// sum over rows of the squared error predicted for many features
double error2_of_many(const std::vector<PredictedRows>& rows, double features) {
  double sum = 0.0;
  for (const PredictedRows& part : rows) {
    sum += part.error2_of_many(features).sum().item<double>();
  }
  return sum;
}

// The number of features whose predicted squared error is `wanted`: bisection of log F.
double features_for(const std::vector<PredictedRows>& rows, double wanted) {
  if (!(error2_of_many(rows, kMostFeatures) <= wanted)) {
    return kInfinity;
  }
  double low = 0.0, high = std::log(kMostFeatures);
  while (high - low > 1e-3) {
    const double middle = 0.5 * (low + high);
    (error2_of_many(rows, std::exp(middle)) <= wanted ? high : low) = middle;
  }
  return std::exp(high);
}

}  // namespace

LayerProbe::LayerProbe(const MixerShape& shape, const LayerMoments& moments, ProbeOptions options)
    : shape_(shape),
      options_(std::move(options)),
      sampled_size_(static_cast<std::size_t>(shape.heads), 0.0),
      pairs_(static_cast<std::size_t>(shape.heads), 0),
      size_(at::zeros({shape.heads}, at::kDouble)),
      constant_(at::zeros({shape.heads}, at::kDouble)) {
  analysis_.layer = shape.layer;
  analysis_.sliding_window = shape.window;
  add_inputs(moments);
  if (shape.window > 0) {
    return;
  }
  for (const AttentionKind kind : kKinds) {
    add_candidate(kind, false, moments);
    add_candidate(kind, true, moments);
  }
  add_candidate(AttentionKind::kDark, true, moments);
  add_theory(moments);
}

void LayerProbe::add_inputs(const LayerMoments& moments) {
  const auto add = [&](std::vector<estimators::Anisotropy>& to, const Tensor& mean,
                       const Tensor& covariance) {
    for (std::int64_t n = 0; n < mean.size(0); ++n) {
      to.push_back(estimators::anisotropy(vector_of(std::sqrt(shape_.scale) * mean[n]),
                                          matrix_of(shape_.scale * covariance[n])));
    }
  };
  const std::int64_t G = shape_.kv_heads;
  add(analysis_.queries, moments.query_mean(shape_.heads), moments.query_covariance(shape_.heads));
  add(analysis_.keys, moments.key_mean(G), moments.key_covariance(G));
  add(analysis_.inputs, 0.5 * (moments.query_mean(G) + moments.key_mean(G)),
      0.5 * (moments.query_covariance(G) + moments.key_covariance(G)));
  for (std::int64_t g = 0; g < G; ++g) {
    moments_.push_back(input_moments(moments, shape_.scale, G, g));
  }
}

void LayerProbe::add_candidate(AttentionKind kind, bool centre, const LayerMoments& moments) {
  Candidate candidate;
  candidate.spec.kind = kind;
  candidate.spec.centre = centre;
  candidate.name = attention_kind_name(kind);
  const AttentionSpec spec = full_spec(candidate.spec, shape_.head_dim, shape_.head_dim);
  const auto fit = [&](const FitStart& start) {
    candidate.families = fitted_families(spec, shape_, moments, shape_.kv_heads, start);
  };
  if (kind == AttentionKind::kDark) {
    candidate.name += " whitened";
    fit({.factor = FactorStart::kWhitenMatch});
  } else if (kind == AttentionKind::kImportance) {
    try {
      fit({});
    } catch (const Error&) {
      fit({.clip = kProposalClip});
      candidate.name += " clipped";
    }
  } else {
    fit({});
  }
  candidate.name += centre ? ", centred" : "";
  const auto H = static_cast<std::size_t>(shape_.heads);
  candidate.predicted.resize(H);
  candidate.error2.resize(H);
  candidate.log_moments.assign(H, 0.0);
  candidate.sample_sizes.assign(H, 0.0);
  for (std::size_t f = 0; f < options_.features.size(); ++f) {
    candidate.errors.push_back(at::zeros({shape_.heads}, at::kDouble));
  }
  candidates_.push_back(std::move(candidate));
}

// Estimators of the library that no attention uses: signs, or another way to draw the same.
void LayerProbe::add_theory(const LayerMoments& moments) {
  const auto H = static_cast<std::size_t>(shape_.heads);
  const std::vector<estimators::FeatureFamily> whitened = candidates_.back().families;
  for (const EstimatorKind kind : {EstimatorKind::kWeighted, EstimatorKind::kTrigonometric}) {
    Candidate candidate;
    candidate.name = concat(estimators::estimator_name(kind), ", centred");
    candidate.runs = false;
    candidate.log_moments.assign(H, 0.0);
    candidate.sample_sizes.assign(H, 0.0);
    for (std::int64_t g = 0; g < shape_.kv_heads; ++g) {
      estimators::FitOptions fit;
      fit.centre = true;
      fit.orthogonal = true;
      fit.factor = kind == EstimatorKind::kWeighted
                       ? whitened[static_cast<std::size_t>(g)].query_map
                       : estimators::Matrix();
      candidate.families.push_back(estimators::fit_family(
          kind, input_moments(moments, shape_.scale, shape_.kv_heads, g), fit));
    }
    candidates_.push_back(std::move(candidate));
  }
}

void LayerProbe::measure(const MixerCall& call) {
  const at::NoGradGuard no_gradients;
  size_ += squared_distance(call.out, at::zeros_like(call.out));
  constant_ += squared_distance(constant_attention(call), call.out);
  for (std::int64_t g = 0; g < shape_.kv_heads; ++g) {
    const AttentionRows rows = attention_rows(call, shape_, g, kQueries);
    reach_.push_back(attention_reach(rows, options_.windows, options_.sinks));
    predict(rows, g);
    look_at_pairs(rows, g);
  }
  if (!candidates_.empty()) {
    try_features(call);
  }
  ++seen_;
}

void LayerProbe::predict(const AttentionRows& rows, std::int64_t kv_head) {
  const Tensor sizes = rows.out.square().sum(-1).reshape({rows.heads, -1}).sum(-1);
  for (std::int64_t i = 0; i < rows.heads; ++i) {
    sampled_size_[static_cast<std::size_t>(kv_head * rows.heads + i)] += sizes[i].item<double>();
  }
  for (Candidate& candidate : candidates_) {
    if (!candidate.runs) {
      continue;
    }
    const PredictedRows all = predict_rows(
        rows, candidate.families[static_cast<std::size_t>(kv_head)], options_.features);
    const auto part = [&](const Tensor& x, std::int64_t i) {
      return x.reshape({rows.heads, -1})[i].clone();
    };
    for (std::int64_t i = 0; i < rows.heads; ++i) {
      const auto head = static_cast<std::size_t>(kv_head * rows.heads + i);
      candidate.predicted[head].push_back(
          {{}, part(all.bias2, i), part(all.log_variance, i), part(all.ignorance, i)});
      candidate.error2[head].resize(all.error2.size(), 0.0);
      for (std::size_t f = 0; f < all.error2.size(); ++f) {
        candidate.error2[head][f] += part(all.error2[f], i).sum().item<double>();
      }
    }
  }
}

void LayerProbe::look_at_pairs(const AttentionRows& rows, std::int64_t kv_head) {
  const std::int64_t n = rows.q.size(0), each = n / rows.heads;
  const Philox random(options_.seed, static_cast<std::uint32_t>(shape_.layer));
  Tensor uniform = at::empty({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i) {
    uniform[i] = random.uniform(static_cast<std::uint64_t>(2 * (seen_ * n + i)));
  }
  const estimators::Matrix q = matrix_of(rows.q),
                           k = matrix_of(rows.k.index_select(0, attended_keys(rows, uniform)));
  const estimators::Matrix white = matrix_of(white_draws(shape_.head_dim, 0)[kv_head]);
  for (Candidate& candidate : candidates_) {
    const auto& family = candidate.families[static_cast<std::size_t>(kv_head)];
    const estimators::FeatureDraws draws = estimators::propose(family, white);
    for (std::size_t i = 0; i < q.rows(); ++i) {
      const auto head = static_cast<std::size_t>(kv_head * rows.heads) + i / each;
      candidate.log_moments[head] += estimators::log_second_moment(family, q.row(i), k.row(i));
      candidate.sample_sizes[head] += estimators::effective_sample_size(
          estimators::relative_terms(family, draws, q.row(i), k.row(i)));
    }
  }
  for (std::int64_t i = 0; i < rows.heads; ++i) {
    pairs_[static_cast<std::size_t>(kv_head * rows.heads + i)] += each;
  }
}

Tensor LayerProbe::white_draws(std::int64_t features, std::int64_t draw) const {
  // As a converted layer draws them: the first set is the one that convert will write.
  return ops::draw_features(shape_.kv_heads, features, shape_.head_dim,
                            static_cast<std::int64_t>(options_.seed), shape_.layer, draw);
}

void LayerProbe::try_features(const MixerCall& call) {
  const auto run = [&](std::size_t candidate, const Tensor& white, std::int64_t window,
                       std::int64_t sinks) {
    const Tensor out =
        mix_by_features(call, shape_, {&candidates_[candidate].families, white, window, sinks});
    return squared_distance(out, call.out) / static_cast<double>(options_.draws);
  };
  for (std::int64_t d = 0; d < options_.draws; ++d) {
    const std::int64_t index = seen_ * options_.draws + d;
    for (std::size_t f = 0; f < options_.features.size(); ++f) {
      const Tensor white = white_draws(options_.features[f], index);
      for (std::size_t c = 0; c < candidates_.size(); ++c) {
        if (candidates_[c].runs) {
          candidates_[c].errors[f] += run(c, white, 0, 0);
        }
      }
    }
  }
  if (seen_ == 0) {
    choose_windows();
  }
  for (Trial& trial : trials_) {
    for (std::int64_t d = 0; d < options_.draws; ++d) {
      const Tensor white = white_draws(trial.spec.features, seen_ * options_.draws + d);
      trial.errors += run(trial.candidate, white, trial.spec.window, trial.spec.sinks);
    }
  }
}

// Windows are tried with what dark starts from and with the best of the fitted kinds so far.
void LayerProbe::choose_windows() {
  const std::size_t middle = options_.features.size() / 2;
  std::size_t dark = 0, fitted = 0;
  double least = kInfinity;
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    const Candidate& candidate = candidates_[c];
    if (candidate.spec.kind == AttentionKind::kPerformer && candidate.spec.centre) {
      dark = c;
    }
    if (candidate.runs && has_log_weights(candidate.spec.kind) &&
        layer_error(candidate.errors[middle]) < least) {
      least = layer_error(candidate.errors[middle]);
      fitted = c;
    }
  }
  double mass = 0.0;
  for (const AttentionReach& reach : reach_) {
    for (const std::vector<double>& head : reach.sinks) {
      mass += head.back() / static_cast<double>(shape_.heads);
    }
  }
  for (const std::size_t candidate : {dark, fitted}) {
    for (const std::int64_t features : options_.features) {
      for (const std::int64_t window : options_.joined) {
        AttentionSpec spec = full_spec(candidates_[candidate].spec, features, shape_.head_dim);
        spec.kind = candidate == dark ? AttentionKind::kDark : spec.kind;
        spec.window = window;
        spec.gate = window > 0;
        spec.sinks = window > 0 && mass >= kSinkMass ? kSinks : 0;
        trials_.push_back({candidate, spec, at::zeros({shape_.heads}, at::kDouble)});
      }
    }
  }
}

double LayerProbe::layer_error(const Tensor& errors) const {
  return std::sqrt(errors.sum().item<double>() / size_.sum().item<double>());
}

double LayerProbe::head_error(const Tensor& errors, std::int64_t head) const {
  return std::sqrt(errors[head].item<double>() / size_[head].item<double>());
}

HeadEstimate LayerProbe::estimate_of(const Candidate& candidate, std::int64_t head) const {
  const auto h = static_cast<std::size_t>(head);
  const auto g = static_cast<std::size_t>(head / (shape_.heads / shape_.kv_heads));
  const auto pairs = static_cast<double>(pairs_[h]);
  HeadEstimate estimate;
  const bool positive = !candidate.families[g].trigonometric;
  estimate.expected_log_moment =
      positive ? estimators::expected_log_second_moment(candidate.families[g], moments_[g]) : kNone;
  estimate.log_moment = candidate.log_moments[h] / pairs;
  estimate.sample_size = positive ? candidate.sample_sizes[h] / pairs : kNone;
  estimate.features_needed = kNone;
  if (!candidate.runs) {
    return estimate;
  }
  const double size = sampled_size_[h];
  for (std::size_t f = 0; f < options_.features.size(); ++f) {
    estimate.predicted.push_back(std::sqrt(candidate.error2[h][f] / size));
    estimate.measured.push_back(head_error(candidate.errors[f], head));
  }
  estimate.features_needed =
      features_for(candidate.predicted[h], options_.target * options_.target * size);
  return estimate;
}

// For each number of features and window: dark, or the fitted kind where it needs no training.
std::vector<LayerOption> LayerProbe::options_of() const {
  std::vector<LayerOption> options;
  for (const Trial& trial : trials_) {
    const double error = layer_error(trial.errors);
    if (trial.spec.kind == AttentionKind::kDark || error <= options_.target) {
      options.push_back({trial.spec, error});
    }
  }
  return options;
}

LayerAnalysis LayerProbe::result() const {
  require(seen_ > 0, "layer ", shape_.layer, ": no held-out window was measured");
  LayerAnalysis result = analysis_;
  result.reach = mean_reach(reach_, shape_.kv_heads);
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    result.constant.push_back(head_error(constant_, h));
  }
  result.constant_error = layer_error(constant_);
  for (const Candidate& candidate : candidates_) {
    EstimatorAnalysis estimator{candidate.name, candidate.spec, candidate.runs, {}, {}};
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      estimator.heads.push_back(estimate_of(candidate, h));
    }
    for (const Tensor& errors : candidate.errors) {
      estimator.errors.push_back(layer_error(errors));
    }
    result.estimators.push_back(std::move(estimator));
  }
  result.options = options_of();
  result.advice = advise(result, options_.target);
  return result;
}

}  // namespace darkformer
