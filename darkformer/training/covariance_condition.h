// How far the learned covariances are from round.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace darkformer {

class Decoder;

// Of each layer the condition number of Sigma = M^T M on its range, (s_max / s_min)^2 with the
// singular values of M, the largest of its groups; 0 for layers without M.
std::vector<double> covariance_conditions(const Decoder& model);

}  // namespace darkformer
