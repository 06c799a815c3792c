// The error that attention with random features will have on given tokens, before anything is
// drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "darkformer/estimators/feature_family.h"
#include "darkformer/evaluation/attention_rows.h"

namespace darkformer {

// Of each row's output, squared distances to the exact output (n), double:
//   with F features, about   bias2 + 1 / (F / variance + 1 / ignorance)
// bias2: what no number of features mends (another kernel, a soft cap left out); log_variance: of
// the output with one draw, to first order (estimators/output_variance.h); ignorance: of an
// attention that knows nothing, the mean of the values seen.
struct PredictedRows {
  at::Tensor bias2, log_variance, ignorance;

  at::Tensor error2(double features) const;  // (n)
};

// For positive features. Products over keys run in float32 on kernels/gemm.
PredictedRows predict_rows(const AttentionRows& rows, const estimators::FeatureFamily& family);

}  // namespace darkformer
