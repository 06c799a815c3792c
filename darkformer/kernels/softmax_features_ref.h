// Softmax features of one row in double, forward and back: for the reference of dark attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace darkformer::kernels {

// log softmax(W x), then log softmax(-W x); map W (R,D).
inline std::vector<double> softmax_logs_ref(const double* map,
                                            std::size_t R,
                                            const std::vector<double>& x) {
  std::vector<double> logs(2 * R, 0.0);
  for (std::size_t half = 0; half < 2; ++half) {
    double* log = &logs[half * R];
    double top = -INFINITY, sum = 0.0;
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t d = 0; d < x.size(); ++d) {
        log[r] += (half == 0 ? 1.0 : -1.0) * map[r * x.size() + d] * x[d];
      }
      top = std::max(top, log[r]);
    }
    for (std::size_t r = 0; r < R; ++r) {
      sum += std::exp(log[r] - top);
    }
    for (std::size_t r = 0; r < R; ++r) {
      log[r] -= top + std::log(sum);
    }
  }
  return logs;
}

// Gives dx and adds to d_map, from the gradient of the logs: d logit_j = d_log_j - p_j sum d_log.
inline std::vector<double> softmax_logs_backward_ref(const double* map,
                                                     const std::vector<double>& x,
                                                     const std::vector<double>& logs,
                                                     const std::vector<double>& d_logs,
                                                     double* d_map) {
  const std::size_t R = logs.size() / 2;
  std::vector<double> dx(x.size(), 0.0);
  for (std::size_t half = 0; half < 2; ++half) {
    double total = 0.0;
    for (std::size_t r = 0; r < R; ++r) {
      total += d_logs[half * R + r];
    }
    for (std::size_t r = 0; r < R; ++r) {
      const std::size_t at = half * R + r;
      const double d_logit = (half == 0 ? 1.0 : -1.0) * (d_logs[at] - std::exp(logs[at]) * total);
      for (std::size_t d = 0; d < x.size(); ++d) {
        dx[d] += map[r * x.size() + d] * d_logit;
        d_map[r * x.size() + d] += x[d] * d_logit;
      }
    }
  }
  return dx;
}

}  // namespace darkformer::kernels
