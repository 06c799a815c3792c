// Gradients of all ranks added up in large pieces while the backward pass still goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "darkformer/training/data_parallel.h"
#include "darkformer/training/trained_parameters.h"

namespace darkformer {

// The gradients live in buckets: flat pieces of at most `bytes` (or one parameter), the last
// parameters of the model first, since their gradients come first. A step is
//   begin();  passes ...;  send_when_ready();  the last backward pass;  finish();
// All ranks run the same passes over the same model. One thread, that of the backward pass.
class GradientBuckets {
 public:
  static constexpr std::int64_t kBytes = std::int64_t{16} << 20U;

  GradientBuckets(const std::vector<TrainedParameter>& parameters,
                  std::shared_ptr<Ranks> ranks,
                  std::int64_t bytes = kBytes);

  // All gradients are zero.
  void begin();
  // From now on a bucket is summed over the ranks as soon as all its gradients have arrived.
  void send_when_ready();
  // Waits until .grad of every parameter is the sum over the ranks; undefined for parameters that
  // no pass reached. RankLost.
  void finish();

  std::size_t count() const;
  std::size_t sent() const;  // whose sums are under way

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace darkformer
