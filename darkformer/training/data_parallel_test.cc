// Ranks as threads of one process: sums, the share of a step, a rank that does not answer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/data_parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/threads.h"
#include "darkformer/training/test_runs.h"

namespace darkformer::data_parallel_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// body(ranks) on as many threads; what they throw, by rank ("" for nothing).
std::vector<std::string> on_ranks(int count,
                                  const std::function<void(const std::shared_ptr<Ranks>&)>& body,
                                  milliseconds timeout = seconds(30)) {
  const RankStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      set_threads(1);
      try {
        body(Ranks::join({.rank = rank,
                          .ranks = count,
                          .local_rank = rank,
                          .local_ranks = count,
                          .host = "127.0.0.1",
                          .port = store.port(),
                          .store_given = true},
                         timeout));
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "");
  }
}

TEST(DataParallel, SumsOverTheRanks) {
  expect_no_errors(on_ranks(3, [](const std::shared_ptr<Ranks>& ranks) {
    std::vector<double> values = {1, static_cast<double>(ranks->rank())};
    ranks->sum(values);
    EXPECT_EQ(values, (std::vector<double>{3, 3}));
    EXPECT_EQ(ranks->from_first(7 + ranks->rank()), 7);
    ranks->require_equal(~std::uint64_t{0}, "texts");
  }));
}

TEST(DataParallel, TheFirstGoesFirst) {
  std::atomic<int> done{0};
  expect_no_errors(on_ranks(3, [&](const std::shared_ptr<Ranks>& ranks) {
    ranks->after_the_first_here([&] {
      if (ranks->is_first()) {
        std::this_thread::sleep_for(milliseconds(50));
        EXPECT_EQ(done++, 0);
      } else {
        EXPECT_GE(done++, 1);
      }
    });
  }));
  EXPECT_EQ(done, 3);
}

TEST(DataParallel, DifferentFilesAreNamed) {
  const auto errors = on_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    ranks->require_equal(ranks->is_first() ? 1 : 2, "weights");
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("rank 1 has other weights than rank 0"), std::string::npos) << error;
  }
}

TEST(DataParallel, ARankThatDoesNotAnswerEndsTheOthersInTime) {
  const auto began = std::chrono::steady_clock::now();
  const auto errors = on_ranks(
      3,
      [](const std::shared_ptr<Ranks>& ranks) {
        std::vector<double> values = {1};
        ranks->sum(values);  // all are connected
        if (ranks->rank() == 1) {
          std::this_thread::sleep_for(milliseconds(2500));
          return;
        }
        ranks->sum(values);
      },
      seconds(1));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(8));
  EXPECT_NE(errors[0].find("did not answer for 1 s"), std::string::npos) << errors[0];
  EXPECT_NE(errors[2].find("another rank"), std::string::npos) << errors[2];
}

// What training with so many ranks comes to: reports of all steps and the weights of each rank.
struct Trained {
  std::vector<StepReport> reports;
  std::vector<std::vector<at::Tensor>> weights;
};

Trained train(int count, TrainerOptions options, int steps, std::int64_t pass_rows) {
  const ScratchFolder scratch;
  const CorpusSplit split = tiny_corpus(scratch.path());
  options.pass_rows = pass_rows;
  Trained result;
  result.weights.resize(static_cast<std::size_t>(count));
  const auto body = [&](const std::shared_ptr<Ranks>& ranks) {
    const int rank = ranks ? ranks->rank() : 0;
    const auto batches = std::make_shared<BatchStream>(
        split, BatchOptions{.batch = 8, .seed = 5, .rank = rank, .ranks = count});
    Trainer trainer(tiny_model(), batches, options, nullptr, ranks);
    for (int i = 0; i < steps; ++i) {
      const StepReport report = trainer.step();
      if (rank == 0) {
        result.reports.push_back(report);
      }
    }
    for (const at::Tensor& parameter : trainer.model()->parameters()) {
      result.weights[static_cast<std::size_t>(rank)].push_back(parameter.detach().clone());
    }
  };
  if (count == 1) {
    body(nullptr);
  } else {
    expect_no_errors(on_ranks(count, body));
  }
  return result;
}

// |a - b| / |b| over all weights.
double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).square().sum().item<double>();
    norm += b[i].square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

// Sums of the same terms in another order: each rounds to 2^-24 of the largest partial sum, and a
// step's sums are a few hundred terms long. Twelve steps add up.
constexpr double kBound = 12 * 32 * 0x1p-24;

TEST(DataParallel, AnyNumberOfRanksTrainsTheSameModel) {
  TrainerOptions options = tiny_training();
  options.optimizer.kind = OptimizerKind::kSgd;  // AdamW divides by tiny numbers, and they differ
  options.schedule.peak = 0.1;
  const Trained one = train(1, options, 12, 0);
  for (const int count : {2, 4}) {
    for (const std::int64_t pass_rows : {0, 1}) {
      SCOPED_TRACE(::testing::Message() << count << " ranks, passes of " << pass_rows);
      const Trained several = train(count, options, 12, pass_rows);
      for (std::size_t step = 0; step < one.reports.size(); ++step) {
        EXPECT_EQ(several.reports[step].tokens, one.reports[step].tokens);
        EXPECT_NEAR(several.reports[step].loss, one.reports[step].loss,
                    kBound * one.reports[step].loss);
        EXPECT_NEAR(several.reports[step].accuracy, one.reports[step].accuracy, 0.03);
      }
      EXPECT_LT(distance(several.weights[0], one.weights[0]), kBound);
      for (const auto& weights : several.weights) {
        for (std::size_t i = 0; i < weights.size(); ++i) {
          EXPECT_TRUE(weights[i].equal(several.weights[0][i])) << "ranks differ in parameter " << i;
        }
      }
    }
  }
}

TEST(DataParallel, TheFirstGradientIsThatOfOneRank) {
  const Trained one = train(1, tiny_training(), 1, 0), four = train(4, tiny_training(), 1, 0);
  EXPECT_NEAR(four.reports[0].loss, one.reports[0].loss, 1e-6 * one.reports[0].loss);
  EXPECT_NEAR(four.reports[0].gradient_norm, one.reports[0].gradient_norm,
              1e-5 * one.reports[0].gradient_norm);
}

TEST(DataParallel, RecomputingAddsNothing) {
  TrainerOptions options = tiny_training();
  const Trained kept = train(2, options, 3, 1);
  options.recompute = true;
  const Trained again = train(2, options, 3, 1);
  for (std::size_t i = 0; i < kept.weights[0].size(); ++i) {
    EXPECT_TRUE(kept.weights[0][i].equal(again.weights[0][i]));
  }
}

// The last layer's sum is under way when the gradient reaches the first layer.
TEST(DataParallel, BucketsTravelDuringTheBackwardPass) {
  expect_no_errors(on_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    const at::Tensor first = at::ones({3}).requires_grad_(), last = at::ones({3}).requires_grad_();
    GradientBuckets buckets({{"first", first}, {"last", last}}, ranks, 1);
    buckets.begin();
    buckets.send_when_ready();
    std::size_t sent = 0;
    const at::Tensor inner = first * 2;
    inner.register_hook([&](const at::Tensor&) { sent = buckets.sent(); });
    (inner * last).sum().backward();
    EXPECT_EQ(sent, 1U);
    EXPECT_EQ(buckets.sent(), 2U);
    buckets.finish();
    EXPECT_TRUE(last.grad().equal(at::full({3}, 4.0F)));
  }));
}

// A bucket for each parameter and one for all give the same.
TEST(DataParallel, BucketsLeaveOutWhatNoPassReaches) {
  expect_no_errors(on_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    for (const std::int64_t bytes : {1, 1 << 20}) {
      const at::Tensor used = at::ones({3}).requires_grad_(), idle = at::ones({2}).requires_grad_(),
                       late = at::ones({1}).requires_grad_();
      GradientBuckets buckets({{"used", used}, {"idle", idle}, {"late", late}}, ranks, bytes);
      EXPECT_EQ(buckets.count(), bytes == 1 ? 3U : 1U);
      for (int step = 0; step < 2; ++step) {
        buckets.begin();
        (late * 5).sum().backward();  // an earlier pass only
        buckets.send_when_ready();
        (used * (1.0 + ranks->rank())).sum().backward();
        buckets.finish();
        EXPECT_TRUE(used.grad().equal(at::full({3}, 3.0F)));
        EXPECT_FALSE(idle.grad().defined());
        EXPECT_TRUE(late.grad().equal(at::full({1}, 10.0F)));
      }
    }
  }));
}

}  // namespace
}  // namespace darkformer::data_parallel_test
