// The rival's model gives the loss and gradients of ours, and learns as ours does.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/rivals/plain_gemma.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "darkformer/base/philox.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/threads.h"
#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/ops/op_testing.h"
#include "darkformer/training/test_runs.h"

namespace darkformer::rivals::plain_gemma_test {
namespace {

using at::Tensor;

ModelConfig config_of(AttentionKind kind) {
  ModelConfig config = small_config(Family::kGemma1, 2);
  config.vocab_size = 259;
  config.hidden_size = 48;
  config.intermediate_size = 96;
  config.head_dim = 16;
  config.query_pre_attn_scalar = 16;
  config.seed = 3;
  AttentionSpec spec{.kind = kind};
  if (has_features(kind)) {
    spec.features = 32;
    spec.rank = 16;
  }
  config.attention.assign(2, spec);
  check_model_config(config, "test");
  return config;
}

const std::vector<AttentionKind>& kinds() {
  static const std::vector<AttentionKind> all = {AttentionKind::kExact, AttentionKind::kPerformer,
                                                 AttentionKind::kDark, AttentionKind::kLfk};
  return all;
}

TEST(PlainGemma, LossAndGradientsEqualOurs) {
  at::manual_seed(1);
  for (const AttentionKind kind : kinds()) {
    SCOPED_TRACE(attention_kind_name(kind));
    Decoder model(config_of(kind), initial_weights(7, 0.1));
    PlainGemma rival(model);
    const Tensor ids = at::randint(259, {2, 50}, at::kLong);
    Tensor targets = at::randint(259, {2, 50}, at::kLong);
    targets[0][3] = -1;
    const Tensor ours = model.loss(model.forward(ids), targets).mean();
    const Tensor theirs = rival.loss(ids, targets);
    ours.backward();
    theirs.backward();
    ops::expect_close("loss", theirs, ours, 100);
    // The longest sums: 100 tokens, 259 words; some ten layers of operations pass roundings on.
    constexpr std::int64_t kTerms = 10 * (100 + 259);
    for (const auto& entry : model.named_parameters()) {
      ops::expect_close("d" + entry.key(), rival.parameters().at(entry.key()).grad(),
                        entry.value().grad(), kTerms);
    }
  }
}

TEST(PlainGemma, RefusesWhatItHasNot) {
  const ModelConfig two = small_config(Family::kGemma2);
  ops::expect_error([&] { PlainGemma rival{Decoder(two, initial_weights(1, 0.1))}; }, "rival:");
  ModelConfig windowed = small_config(Family::kGemma1);
  windowed.attention[1] = small_dark_spec();
  ops::expect_error([&] { PlainGemma rival{Decoder(windowed, initial_weights(1, 0.1))}; },
                    "rival:");
}

constexpr std::int64_t kSteps = 100;

TrainerOptions training() {
  TrainerOptions options;
  options.schedule = {.peak = 3e-3, .warmup = 10, .steps = kSteps};
  return options;
}

// A language of 50 words; three words, equally often, may follow each: its entropy is log 3.
Documents sentences() {
  const Philox random(9);
  Documents documents(300);
  std::uint64_t drawn = 0;
  for (auto& document : documents) {
    document.resize(100);
    std::int32_t word = 0;
    for (std::int32_t& token : document) {
      word = (7 * word + 5 * static_cast<std::int32_t>(random.below(drawn++, 3)) + 3) % 50;
      token = 3 + word;
    }
  }
  return documents;
}

std::shared_ptr<BatchStream> batches_of(const CorpusSplit& split) {
  return std::make_shared<BatchStream>(split, BatchOptions{.batch = 8, .seed = 5, .prefetch = 0});
}

std::vector<double> our_curve(const CorpusSplit& split, AttentionKind kind, std::uint64_t seed) {
  const auto model = std::make_shared<Decoder>(config_of(kind), initial_weights(seed, 0.05));
  Trainer trainer(model, batches_of(split), training());
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    losses.push_back(trainer.step().loss);
  }
  return losses;
}

std::vector<double> rival_curve(const CorpusSplit& split, AttentionKind kind, std::uint64_t seed) {
  PlainGemma rival{Decoder(config_of(kind), initial_weights(seed, 0.05))};
  const auto batches = batches_of(split);
  const TrainerOptions options = training();
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const BatchTensors batch = tensors_of(batches->next());
    losses.push_back(rival.step(batch.inputs, batch.targets, options.schedule.rate(step),
                                options.optimizer, options.clip));
  }
  return losses;
}

// The root mean square of the difference over the whole curve.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// Same seed, weights and batches: the curves may part only by what rounding grows to. "Within
// noise" is a thousandth of the distance between two of our own runs that differ in their first
// weights: a hundred times what was seen, a thirtieth of what a wrong weight decay makes.
TEST(PlainGemma, LearnsAsOursDoes) {
  set_threads(1);  // too small for two
  at::set_num_threads(1);
  const ScratchFolder folder;
  const auto shard = make_shard(folder.path() / "curve.tokens", sentences());
  const CorpusSplit split =
      split_corpus(std::make_shared<PackedTokens>(Shards{shard}), {.context = 64, .held_out = 0.1});
  for (const AttentionKind kind : {AttentionKind::kExact, AttentionKind::kDark}) {
    SCOPED_TRACE(attention_kind_name(kind));
    const std::vector<double> ours = our_curve(split, kind, 1),
                              theirs = rival_curve(split, kind, 1);
    const double noise = distance(ours, our_curve(split, kind, 2));
    std::printf("%s: loss %.4f -> ours %.4f, rival %.4f; distance %.2e, between seeds %.2e\n",
                std::string(attention_kind_name(kind)).c_str(), ours.front(), ours.back(),
                theirs.back(), distance(ours, theirs), noise);
    EXPECT_LT(ours.back(), 0.5 * ours.front()) << "nothing was learned";
    EXPECT_NEAR(ours.front(), theirs.front(), 1e-5 * ours.front());
    EXPECT_LT(distance(ours, theirs), 1e-3 * noise);
  }
}

}  // namespace
}  // namespace darkformer::rivals::plain_gemma_test
