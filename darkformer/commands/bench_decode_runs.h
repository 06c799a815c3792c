// One token at a time: attention with a state, attention with a cache, a whole model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "darkformer/kernels/dark_problem.h"

#include "darkformer/model/decoder_state.h"

namespace darkformer {

class Decoder;

// Feature attention after `context` tokens. The state is that of a short prompt with its position
// moved on: its size, and so the work of a step, is that of any context.
class FeatureDecode {
 public:
  FeatureDecode(std::int64_t heads, std::int64_t size, std::int64_t features, std::int64_t context);

  void step();
  std::int64_t state_bytes() const;

 private:
  kernels::DarkState state();

  kernels::DarkProblem token_;
  std::vector<float> sum_, weight_, log_scale_, value_sum_, out_;
  std::int64_t position_ = 0;
};

// Exact attention of one query over a cache of `context` random keys and values.
class ExactDecode {
 public:
  ExactDecode(std::int64_t heads, std::int64_t size, std::int64_t context);

  void step() const;
  std::int64_t cache_bytes() const;

 private:
  std::size_t heads_, size_, context_;
  std::vector<float> q_, k_, v_;
  mutable std::vector<float> out_;
};

// Error: token by token, feature and exact attention are not what their references say.
void check_decode(std::int64_t size, std::int64_t features);

// A model with a short prompt behind it. Every step starts from there, so that all cost the same.
class ModelDecode {
 public:
  ModelDecode();  // random bfloat16 weights, larger than caches are
  explicit ModelDecode(const std::filesystem::path& folder);

  // The logits of one more token.
  void step();
  // What the step is measured against: sums over all weights as 8-byte numbers.
  void read_weights() const;
  std::int64_t weight_bytes() const;
  // So many sequences of this length, sampled at once, as darkformer sample does.
  void sample(std::int64_t batch, std::int64_t tokens);

 private:
  explicit ModelDecode(std::shared_ptr<Decoder> model);

  std::shared_ptr<Decoder> model_;
  std::vector<at::Tensor> weights_;
  DecoderState prompt_;
};

}  // namespace darkformer
