// Learning from a teacher: the distance between two models' distributions, and between the outputs
// of their attention, as losses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "darkformer/evaluation/batch_tensors.h"

namespace darkformer {

class Decoder;

struct DistillationOptions {
  double loss_weight = 1;       // of the next-token loss
  double logits_weight = 0;     // of KL(teacher || model)
  double attention_weight = 0;  // of the distance between attention outputs
};

struct DistillationTerm {
  at::Tensor objective;  // its gradient in `hidden` is the term's; the value means nothing
  double value = 0;      // share * sum over counted targets of KL
};

// share * logits_weight * sum over the counted targets of
//   sum_v p_teacher(v) (log p_teacher(v) - log p_model(v))
// Memory: a block of logits of bounded size. The gradient in the head's weight is added to its
// .grad at once, that in `hidden` (B,T,E) comes with the objective.
DistillationTerm distill(const Decoder& model,
                         Decoder& teacher,
                         const BatchTensors& tokens,
                         const at::Tensor& hidden,
                         double share,
                         const DistillationOptions& options);

// What distill has at its highest besides hidden states.
std::int64_t distillation_floats(std::int64_t vocabulary, std::int64_t tokens);

// The mean over the converted layers of  |o - o_teacher|^2 / |o_teacher|^2 , where both attentions
// read the teacher's own hidden states: each layer learns by itself, whatever the others do yet.
// Adds weight times the gradient to the parameters' .grad, a layer at a time; returns the mean (0
// without a converted layer). Error: models of different shapes.
double distill_attention(Decoder& model, Decoder& teacher, const at::Tensor& inputs, double weight);

}  // namespace darkformer
