// Plans: what they count exactly, and which way options move them. Whole runs are held to them in
// tests/end_to_end/memory_test.py.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/run_plan.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/model/model_shapes.h"

namespace darkformer::run_plan_test {
namespace {

PlannedRun gemma_2b(TrainScope scope) {
  return {.config = *find_model_shape("gemma-2b"), .scope = scope, .batch = 8};
}

TEST(RunPlan, CountsWhatIsTrained) {
  const PlannedRun all = gemma_2b(TrainScope::kAll), attention = gemma_2b(TrainScope::kAttention);
  EXPECT_EQ(trained_count(all.config, all.scope), 2'506'172'416);
  // 18 layers of q (2048,2048), k and v (256,2048)
  EXPECT_EQ(trained_count(attention.config, attention.scope), 18 * (2048 + 2 * 256) * 2048);
}

TEST(RunPlan, CountsWhatAConversionLearns) {
  ModelConfig config = *find_model_shape("gemma-2b");
  const std::int64_t exact = trained_count(config, TrainScope::kAttention);
  const auto added = [&](AttentionSpec spec) {
    config.attention.assign(18, spec);
    return trained_count(config, TrainScope::kAttention) - exact;
  };
  AttentionSpec spec{.kind = AttentionKind::kPerformer, .features = 128, .rank = 256};
  EXPECT_EQ(added(spec), 0);  // the draws are drawn
  spec.kind = AttentionKind::kDark;
  EXPECT_EQ(added(spec), 18 * 256 * 256);
  spec.kind = AttentionKind::kLfk;
  EXPECT_EQ(added(spec), 18 * 128 * 256);
  spec.kind = AttentionKind::kDark, spec.window = 16, spec.gate = true;
  EXPECT_EQ(added(spec), 18 * (256 * 256 + 2 * 8 + 8 * 256));
  spec = {
      .kind = AttentionKind::kHedgehog, .features = 128, .rank = 256, .near = NearKernel::kModel};
  EXPECT_EQ(added(spec), 18 * 2 * 64 * 256);
}

TEST(RunPlan, FrozenWeightsStayInTheFileAndTrainedOnesHaveFourNumbers) {
  const MemoryPlan all = plan_memory(gemma_2b(TrainScope::kAll)),
                   attention = plan_memory(gemma_2b(TrainScope::kAttention));
  EXPECT_EQ(all.mapped, 0);
  EXPECT_EQ(all.weights + all.moments, 12 * 2'506'172'416);
  EXPECT_EQ(attention.mapped, 2 * 2'506'172'416);
  EXPECT_EQ(attention.weights, 4 * 18 * (2048 + 2 * 256) * 2048);
  EXPECT_LT(attention.peak(), all.peak() / 2);
}

TEST(RunPlan, OptionsMoveItTheirWay) {
  const PlannedRun run = gemma_2b(TrainScope::kAttention);
  const std::int64_t peak = plan_memory(run).peak();
  PlannedRun other = run;
  other.recompute = true;
  EXPECT_LT(plan_memory(other).peak(), peak);
  other = run;
  other.pass_rows = 1;
  EXPECT_LT(plan_memory(other).peak(), peak);
  other = run;
  other.optimizer = OptimizerKind::kSgd;
  EXPECT_LT(plan_memory(other).peak(), peak);
  other = run;
  other.context *= 2;
  EXPECT_GT(plan_memory(other).activations, 19 * plan_memory(run).activations / 10);
  other = run;
  other.teacher = run.config;
  EXPECT_EQ(plan_memory(other).mapped, 2 * plan_memory(run).mapped);
}

TEST(RunPlan, ATeachersLogitsTakeBlocksOfTheVocabulary) {
  PlannedRun run = gemma_2b(TrainScope::kAttention);
  run.batch = 1, run.context = 128;
  run.teacher = run.config;
  const std::int64_t without = plan_memory(run).peak();
  run.distills_logits = true;
  EXPECT_GT(plan_memory(run).peak(), without + (std::int64_t{64} << 20));
}

TEST(RunPlan, RanksOfAMachineShareTheFile) {
  const MemoryPlan plan = plan_memory(gemma_2b(TrainScope::kAttention));
  EXPECT_EQ(plan.machine(1), plan.peak());
  EXPECT_EQ(plan.machine(4) - plan.machine(1), 3 * plan.own());
}

TEST(RunPlan, TrafficIsThatOfARing) {
  PlannedRun run = gemma_2b(TrainScope::kAttention);
  const MachineSpeed speed;
  EXPECT_EQ(plan_step(run, speed).sent_bytes, 0);
  run.ranks = 8;
  EXPECT_DOUBLE_EQ(plan_step(run, speed).sent_bytes,
                   2 * 7.0 / 8.0 * 4 * static_cast<double>(18 * (2048 + 2 * 256) * 2048));
}

TEST(RunPlan, MoreRanksTakeLessTimeUntilTheNetworkIsFull) {
  PlannedRun run = gemma_2b(TrainScope::kAll);
  run.batch = 64;
  const MachineSpeed speed{.flops = 1e12, .bandwidth = 1e9};
  const double one = plan_step(run, speed).seconds;
  run.ranks = 8;
  const StepPlan eight = plan_step(run, speed);
  EXPECT_LT(eight.seconds, one / 4);
  EXPECT_GT(plan_step(run, {.flops = 1e12, .bandwidth = 1e7}).seconds, 1000);
  EXPECT_GE(eight.seconds, eight.compute_seconds);
}

TEST(RunPlan, LinearAttentionCostsTheSameForEveryToken) {
  PlannedRun run{.config = *find_model_shape("gemma-2b"), .context = 4096};
  run.config.attention.assign(18, {.kind = AttentionKind::kDark, .features = 256, .rank = 256});
  const double shorter = plan_step(run, {}).forward_flops / 4096;
  run.context = 65536;
  EXPECT_DOUBLE_EQ(plan_step(run, {}).forward_flops / 65536, shorter);
  for (const AttentionSpec& spec : {AttentionSpec{.kind = AttentionKind::kWindow, .window = 16},
                                    AttentionSpec{.kind = AttentionKind::kConstant}}) {
    run.config.attention.assign(18, spec);
    EXPECT_LT(plan_step(run, {}).forward_flops / 65536, shorter);
  }
}

TEST(RunPlan, ABatchMustReachAllRanks) {
  PlannedRun run = gemma_2b(TrainScope::kAll);
  run.ranks = 9;
  EXPECT_THROW(plan_memory(run), Error);
}

}  // namespace
}  // namespace darkformer::run_plan_test
