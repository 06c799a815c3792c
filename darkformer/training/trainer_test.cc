// A step: passes add up, states come back, what is not finite changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/training/test_runs.h"

namespace darkformer::trainer_test {
namespace {

class TrainerTest : public ::testing::Test {
 protected:
  Trainer trainer(const TrainerOptions& options, std::shared_ptr<Decoder> teacher = nullptr) const {
    return {tiny_model(), tiny_batches(split_), options, std::move(teacher)};
  }

  ScratchFolder scratch_;
  CorpusSplit split_ = tiny_corpus(scratch_.path());
};

double largest_change(const Decoder& a, const Decoder& b) {
  const auto others = b.named_parameters();
  double largest = 0;
  for (const auto& entry : a.named_parameters()) {
    const at::Tensor change = (entry.value() - others[entry.key()]).abs().max();
    largest = std::max(largest, change.item<double>());
  }
  return largest;
}

TEST_F(TrainerTest, LearnsTheCorpus) {
  TrainerOptions options = tiny_training();
  options.schedule = {.kind = ScheduleKind::kConstant, .peak = 1e-2, .steps = 60};
  Trainer training = trainer(options);
  const double first = training.step().loss;
  StepReport last;
  for (int step = 1; step < 60; ++step) {
    last = training.step();
  }
  EXPECT_LT(last.loss, first - 0.5);
  EXPECT_EQ(last.step, 60);
  EXPECT_EQ(training.state().optimizer_steps, 60);
}

// The same batch in one pass and in passes of 1 and 3 rows: the gradient is the same but for
// rounding.
TEST_F(TrainerTest, PassesAddUp) {
  TrainerOptions options = tiny_training();
  options.optimizer.kind = OptimizerKind::kSgd;  // shows the gradient itself
  Trainer whole = trainer(options);
  const StepReport want = whole.step();
  for (const std::int64_t rows : {1, 3}) {
    options.pass_rows = rows;
    Trainer parts = trainer(options);
    const StepReport got = parts.step();
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.accuracy, want.accuracy);
    EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss);
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 1e-5 * want.gradient_norm);
    EXPECT_LT(largest_change(*parts.model(), *whole.model()), 1e-6);
  }
}

TEST_F(TrainerTest, ClippingLimitsTheUpdate) {
  TrainerOptions options = tiny_training();
  options.optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0};
  options.schedule = {.kind = ScheduleKind::kConstant, .peak = 1, .steps = 1};
  options.factor_rate_scale = 1;
  options.clip = 1e-3;
  Trainer training = trainer(options);
  const auto before = tiny_model();
  EXPECT_GT(training.step().gradient_norm, options.clip);
  double squares = 0;
  const auto others = before->named_parameters();
  for (const auto& entry : training.model()->named_parameters()) {
    squares += (entry.value() - others[entry.key()]).to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(squares), options.clip, 0.02 * options.clip);
}

TEST_F(TrainerTest, DrawsChangeWhenTheyAreDue) {
  Trainer training = trainer(tiny_training());  // every 4 steps
  const auto draws = [&] {
    return training.model()->named_buffers()["model.layers.1.self_attn.dark.draws"].clone();
  };
  at::Tensor last = draws();
  for (int step = 1; step <= 9; ++step) {
    training.step();
    const at::Tensor now = draws();
    EXPECT_EQ(now.equal(last), step != 5 && step != 9) << "step " << step;
    last = now;
  }
  EXPECT_EQ(training.model()->config().draw_index, 2);
}

TEST_F(TrainerTest, NonFiniteStepsChangeNothing) {
  Trainer training = trainer(tiny_training());
  at::Tensor weight = training.model()->named_parameters()["model.norm.weight"].detach();
  const float sound = weight[0].item<float>();
  weight[0] = std::numeric_limits<float>::quiet_NaN();
  const StepReport report = training.step();
  EXPECT_FALSE(report.finite);
  EXPECT_EQ(report.nonfinite.weight, "model.norm.weight");
  EXPECT_EQ(training.state().skipped, 1);
  EXPECT_EQ(training.state().optimizer_steps, 0);
  weight[0] = sound;
  EXPECT_EQ(largest_change(*training.model(), *tiny_model()), 0);
  EXPECT_TRUE(training.step().finite);
}

// The teacher's own weights: no distance, so no gradient from it; another teacher pulls.
TEST_F(TrainerTest, DistillationPullsTowardsTheTeacher) {
  TrainerOptions options = tiny_training();
  options.redraw_every = 0;
  options.distillation = {.loss_weight = 0, .logits_weight = 1};
  Trainer same = trainer(options, tiny_model());
  const StepReport none = same.step();
  EXPECT_NEAR(none.distillation_loss, 0, 1e-6);
  EXPECT_LT(none.gradient_norm, 1e-5);

  ModelConfig config = tiny_model()->config();
  const auto teacher = std::make_shared<Decoder>(config, initial_weights(8, 0.1));
  options.schedule = {.kind = ScheduleKind::kConstant, .peak = 1e-2, .steps = 40};
  options.pass_rows = 3;
  Trainer other = trainer(options, teacher);
  const double first = other.step().distillation_loss;
  double last = first;
  for (int step = 1; step < 40; ++step) {
    last = other.step().distillation_loss;
  }
  EXPECT_GT(first, 0.01);
  EXPECT_LT(last, 0.5 * first);
}

// KL's gradient is that of the cross-entropy with the teacher's distribution, all at once.
TEST_F(TrainerTest, DistillationHasTheGradientOfThePlainFormula) {
  const auto model = tiny_model();
  const auto teacher = std::make_shared<Decoder>(model->config(), initial_weights(8, 0.1));
  const BatchTensors tokens = tensors_of(tiny_batches(split_)->next());
  const auto parameters = trained_parameters(*model);
  const at::Tensor hidden = model->forward(tokens.inputs);
  const DistillationTerm term =
      distill(*model, *teacher, tokens, hidden, 0.5, {.loss_weight = 0, .logits_weight = 3});
  term.objective.backward();
  std::vector<at::Tensor> got;
  for (const TrainedParameter& parameter : parameters) {
    got.push_back(parameter.value.grad().clone());
  }
  clear_gradients(parameters);
  const at::Tensor log_p = at::log_softmax(model->logits(model->forward(tokens.inputs)), -1);
  const at::Tensor log_t =
      at::log_softmax(teacher->logits(teacher->forward(tokens.inputs)), -1).detach();
  const at::Tensor kl = (log_t.exp() * (log_t - log_p)).sum(-1).masked_select(tokens.targets.ge(0));
  EXPECT_NEAR(term.value, 0.5 * kl.sum().item<double>(), 1e-4 * std::abs(term.value));
  (kl.sum() * (3 * 0.5)).backward();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor want = parameters[i].value.grad();
    EXPECT_LT((got[i] - want).abs().max().item<double>(),
              1e-4 * want.abs().max().item<double>() + 1e-7)
        << parameters[i].name;
  }
}

// Exact teacher, dark student with other weights: matching the attention brings it closer, and
// touches only the converted layer's attention and the norm before it.
TEST_F(TrainerTest, AttentionIsMatchedLayerByLayer) {
  ModelConfig exact = tiny_model()->config();
  exact.attention.assign(exact.attention.size(), AttentionSpec{});
  const auto teacher = std::make_shared<Decoder>(exact, initial_weights(9, 0.1));
  TrainerOptions options = tiny_training();
  options.redraw_every = 0;
  options.optimizer.weight_decay = 0;
  options.schedule = {.kind = ScheduleKind::kConstant, .peak = 1e-2, .steps = 40};
  options.distillation = {.loss_weight = 0, .logits_weight = 0, .attention_weight = 1};
  Trainer training = trainer(options, teacher);
  const double first = training.step().attention_distance;
  double last = first;
  for (int step = 1; step < 40; ++step) {
    last = training.step().attention_distance;
  }
  EXPECT_GT(first, 0);
  EXPECT_LT(last, 0.8 * first);
  const auto before = tiny_model()->named_parameters();
  for (const auto& entry : training.model()->named_parameters()) {
    const bool matched = entry.key().find("layers.1.self_attn") != std::string::npos ||
                         entry.key().find("layers.1.input_layernorm") != std::string::npos;
    EXPECT_EQ(entry.value().equal(before[entry.key()]), !matched) << entry.key();
  }
}

}  // namespace
}  // namespace darkformer::trainer_test
