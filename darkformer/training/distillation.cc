// KL by blocks of rows, each with its own backward pass.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/distillation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

using at::Tensor;

namespace {

// Logits of a block take at most this many floats (64 MiB) for each model.
constexpr std::int64_t kBlockLogits = std::int64_t{1} << 24;

// Values of that size that kl_sum has at once.
constexpr std::int64_t kBlockValues = 7;

std::int64_t block_rows(std::int64_t vocabulary) {
  return std::max<std::int64_t>(1, kBlockLogits / vocabulary);
}

Tensor kl_sum(const Tensor& logits, const Tensor& teacher_logits, const Tensor& counted) {
  const Tensor log_p = at::log_softmax(logits, -1);                // (n,V)
  const Tensor log_teacher = at::log_softmax(teacher_logits, -1);  // (n,V)
  const Tensor kl = (log_teacher.exp() * (log_teacher - log_p)).sum(-1);
  return (kl * counted).sum();
}

std::int64_t converted_layers(const Decoder& model) {
  const auto& specs = model.config().attention;
  return std::count_if(specs.begin(), specs.end(), [](const AttentionSpec& spec) {
    return spec.kind != AttentionKind::kExact;
  });
}

Tensor teacher_states(Decoder& teacher, const Tensor& inputs) {
  const at::NoGradGuard no_gradients;
  return teacher.forward(inputs).flatten(0, 1);
}

Tensor teacher_logits(const Decoder& teacher, const Tensor& rows) {
  const at::NoGradGuard no_gradients;
  return teacher.logits(rows);
}

}  // namespace

std::int64_t distillation_floats(std::int64_t vocabulary, std::int64_t tokens) {
  return kBlockValues * std::min(tokens, block_rows(vocabulary)) * vocabulary;
}

DistillationTerm distill(const Decoder& model,
                         Decoder& teacher,
                         const BatchTensors& tokens,
                         const Tensor& hidden,
                         double share,
                         const DistillationOptions& options) {
  const Tensor taught = teacher_states(teacher, tokens.inputs);          // (BT,E)
  const Tensor counted = tokens.targets.ge(0).to(at::kFloat).flatten();  // (BT)
  // A leaf of its own: the blocks' gradients add up here and enter the model's graph once.
  const Tensor rows = hidden.detach().flatten(0, 1).requires_grad_();  // (BT,E)
  const std::int64_t n = rows.size(0);
  const std::int64_t block = block_rows(model.config().vocab_size);
  DistillationTerm term;
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t count = std::min(block, n - begin);
    const Tensor sum = kl_sum(model.logits(rows.narrow(0, begin, count)),
                              teacher_logits(teacher, taught.narrow(0, begin, count)),
                              counted.narrow(0, begin, count));
    (sum * (share * options.logits_weight)).backward();
    term.value += share * sum.item<double>();
  }
  term.objective = (hidden * rows.grad().view_as(hidden)).sum();
  return term;
}

double distill_attention(Decoder& model, Decoder& teacher, const Tensor& inputs, double weight) {
  const ModelConfig &config = model.config(), &other = teacher.config();
  require(config.layers == other.layers && config.hidden_size == other.hidden_size,
          "the teacher has ", count_text(other.layers, "layer"), " of width ", other.hidden_size,
          ", the model has ", config.layers, " of width ", config.hidden_size,
          "; to match their attention they must be the same");
  const std::int64_t converted = converted_layers(model);
  double sum = 0;
  const at::NoGradGuard no_gradients;
  const Decoder::Start start = teacher.start(inputs);
  std::vector<KeyValues> taught(static_cast<std::size_t>(config.layers)), learned(taught);
  Tensor x = start.x;  // (B,T,E)
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const auto owner = static_cast<std::size_t>(config.key_layer(layer));
    const Tensor want = teacher.block(layer)->attend(x, &taught[owner]);  // (B,T,E)
    if (config.attention[static_cast<std::size_t>(layer)].kind != AttentionKind::kExact) {
      const at::AutoGradMode gradients(true);
      const Tensor error = (model.block(layer)->attend(x, &learned[owner]) - want).square().sum();
      const Tensor distance = error / want.square().sum();
      (distance * (weight / static_cast<double>(converted))).backward();
      sum += distance.item<double>() / static_cast<double>(converted);
      // Layers that share these keys learn with them, but do not teach them: each has its own
      // backward pass.
      learned[owner] = {learned[owner].k.detach(), learned[owner].v.detach()};
    }
    x = teacher.block(layer)->finish(x, want, start.own_of(layer));
  }
  return sum;
}

}  // namespace darkformer
