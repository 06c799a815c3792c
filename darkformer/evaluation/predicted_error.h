// The error that attention with random features will have on given tokens, before anything is
// drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "darkformer/estimators/feature_family.h"
#include "darkformer/evaluation/attention_rows.h"

namespace darkformer {

// Of each row's output, squared distances to the exact output (n), double; the formulas are in
// estimators/output_variance.h.
struct PredictedRows {
  std::vector<at::Tensor> error2;  // with each number of features
  at::Tensor bias2;         // what no number of features mends: another kernel, a soft cap left out
  at::Tensor log_variance;  // of the output with one draw, to first order
  at::Tensor ignorance;     // of an attention that knows nothing, the mean of the values seen

  // With many features, where first order holds in most rows: bias2 + 1 / (F / variance + 1 /
  // ignorance).
  at::Tensor error2_of_many(double features) const;
};

// For positive features. Memory: a few numbers for each pair of keys.
PredictedRows predict_rows(const AttentionRows& rows,
                           const estimators::FeatureFamily& family,
                           const std::vector<std::int64_t>& features);

}  // namespace darkformer
