// A Gemma 1 and its training step in plain ATen calls: what ours is measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "darkformer/training/optimizer.h"

#include "darkformer/model/model_config.h"

namespace darkformer::rivals {

// The names of its parameters are those of our model.
class PlainGemma {
 public:
  // Copies the weights. Error: not a Gemma 1, a layer that is neither exact nor a plain performer,
  // dark or lfk (no window, centre or gate, one set of draws for each kv head).
  explicit PlainGemma(const Decoder& model);

  // ids (B,T), targets (B,T), -1 where one does not count -> the mean loss. Differentiable.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) const;

  // One step of AdamW as ours (training/optimizer.h): loss, gradients, their norm limited to
  // `clip` (0: not), the update. Returns the loss before it.
  double step(const at::Tensor& ids,
              const at::Tensor& targets,
              double rate,
              const OptimizerOptions& options,
              double clip);

  const std::map<std::string, at::Tensor>& parameters() const { return parameters_; }
  // Of a backward pass of loss().
  void clear_gradients();

 private:
  struct Moments {
    at::Tensor m, v;
  };

  const at::Tensor& weight(const std::string& name) const;
  at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  at::Tensor rotate(const at::Tensor& x) const;
  at::Tensor attention(const at::Tensor& x, std::int64_t layer) const;
  at::Tensor mix(const at::Tensor& q,
                 const at::Tensor& k,
                 const at::Tensor& v,
                 std::int64_t layer) const;
  at::Tensor feed_forward(const at::Tensor& x, const std::string& prefix) const;
  void limit_gradients(double clip) const;
  void update(double rate, const OptimizerOptions& options);

  ModelConfig config_;
  std::map<std::string, at::Tensor> parameters_, buffers_;
  std::map<std::string, Moments> moments_;
  at::Tensor cosines_, sines_;  // (positions, D)
  std::int64_t steps_ = 0;
};

}  // namespace darkformer::rivals
