// AdamW and plain gradient descent over the trained parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "darkformer/training/trained_parameters.h"

namespace darkformer {

enum class OptimizerKind : std::uint8_t { kAdamw, kSgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamw;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // of the parameters that decay
};

// Not thread-safe.
class Optimizer {
 public:
  Optimizer(std::vector<TrainedParameter> parameters, const OptimizerOptions& options);

  // One update from the parameters' gradients g' = gradient_scale g with the rate r = rate *
  // rate_scale:
  //   AdamW: kernels/adamw.h      SGD: p <- p (1 - r decay) - r g'
  // A parameter without a gradient is left alone.
  void step(double rate, double gradient_scale);

  std::int64_t steps() const { return steps_; }  // updates so far
  const std::vector<TrainedParameter>& parameters() const { return parameters_; }

  // The running means m and v of all parameters, as a safetensors file with the same bits.
  void save(const std::filesystem::path& file) const;
  // Error: the file is not of an optimiser of these parameters.
  void load(const std::filesystem::path& file, std::int64_t steps);

 private:
  struct Moments {
    at::Tensor m, v;  // of the parameter's shape; undefined for SGD
  };

  void update(const TrainedParameter& parameter,
              const Moments& moments,
              double rate,
              double gradient_scale) const;

  std::vector<TrainedParameter> parameters_;
  OptimizerOptions options_;
  std::vector<Moments> moments_;
  std::int64_t steps_ = 0;
};

}  // namespace darkformer
