// Verdicts on made-up observations.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/claims.h"

#include <gtest/gtest.h>

#include <cmath>

namespace darkformer::reproduce::claims_test {
namespace {

Observation observed(const std::string& arm, std::int64_t seed, double accuracy) {
  Observation o;
  o.experiment = "e", o.group = "g", o.arm = arm, o.seed = seed;
  o.values["accuracy"] = accuracy;
  return o;
}

Claim difference() {
  Claim claim;
  claim.terms = {{1, "g/dark", "accuracy"}, {-1, "g/performer", "accuracy"}};
  return claim;
}

std::vector<Observation> pairs(const std::vector<double>& dark,
                               const std::vector<double>& performer) {
  std::vector<Observation> all;
  for (std::size_t i = 0; i < dark.size(); ++i) {
    all.push_back(observed("dark", static_cast<std::int64_t>(i), dark[i]));
    all.push_back(observed("performer", static_cast<std::int64_t>(i), performer[i]));
  }
  return all;
}

Verdict verdict(const std::vector<double>& dark, const std::vector<double>& performer) {
  return evaluate_claim("e", difference(), pairs(dark, performer)).verdict;
}

TEST(Claims, hold_or_not_or_are_undecided) {
  EXPECT_EQ(verdict({0.30, 0.31, 0.32}, {0.20, 0.21, 0.22}), Verdict::kHolds);
  EXPECT_EQ(verdict({0.20, 0.21, 0.22}, {0.30, 0.31, 0.32}), Verdict::kDoesNotHold);
  EXPECT_EQ(verdict({0.20, 0.31, 0.22}, {0.21, 0.20, 0.22}), Verdict::kUndecided);
  EXPECT_EQ(verdict({0.30}, {0.20}), Verdict::kUndecided);  // one seed has no interval
  EXPECT_EQ(verdict({}, {}), Verdict::kNotMeasured);
  EXPECT_EQ(verdict({0.3, 0.3}, {0.3, 0.3}), Verdict::kUndecided);  // equal decides nothing
}

TEST(Claims, pair_by_seed) {
  // Seeds differ by far more than the kinds do: only paired values decide it.
  EXPECT_EQ(verdict({0.101, 0.301, 0.501}, {0.1, 0.3, 0.5}), Verdict::kHolds);
}

TEST(Claims, interval_is_students) {
  const Interval interval = interval_of({1, 2, 3});  // 2 -+ 4.3027 / sqrt(3)
  EXPECT_DOUBLE_EQ(interval.mean, 2);
  EXPECT_NEAR(interval.low, 2 - 4.3027 / std::sqrt(3.0), 1e-12);
  EXPECT_NEAR(interval.high, 2 + 4.3027 / std::sqrt(3.0), 1e-12);
  EXPECT_TRUE(std::isnan(interval_of({1}).low));
}

TEST(Claims, seeds_that_lack_a_term_are_left_out) {
  auto all = pairs({0.3, 0.31, 0.32}, {0.2, 0.21, 0.22});
  all.push_back(observed("dark", 9, 0.0));
  const ClaimResult result = evaluate_claim("e", difference(), all);
  EXPECT_EQ(result.values.size(), 3U);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
}

TEST(Claims, ratios_and_bounds) {
  auto all = pairs({0.25, 0.26, 0.255}, {0.2, 0.21, 0.205});
  for (int seed = 0; seed < 3; ++seed) {
    all.push_back(observed("exact", seed, 0.3 + 0.01 * seed - (seed == 2 ? 0.015 : 0)));
  }
  Claim claim = difference();
  claim.over = {{1, "g/exact", "accuracy"}, {-1, "g/performer", "accuracy"}};
  claim.above = 0.4;
  const ClaimResult result = evaluate_claim("e", claim, all);
  EXPECT_NEAR(result.interval.mean, 0.5, 1e-12);
  EXPECT_EQ(result.verdict, Verdict::kHolds);
  claim.above = 0.6;
  EXPECT_EQ(evaluate_claim("e", claim, all).verdict, Verdict::kDoesNotHold);
}

TEST(Claims, sample_over_a_grid_option_and_choose_by_another) {
  std::vector<Observation> all;
  for (const double lr : {0.1, 0.2, 0.3}) {
    for (const int clip : {0, 1}) {
      for (const char* arm : {"dark", "performer"}) {
        Observation o = observed(arm, 1, 0);
        o.grid["lr"] = lr, o.grid["clip"] = clip;
        const bool spiky = std::string(arm) == "performer" && clip == 0;
        o.values["spikes"] = spiky ? 5 + lr : 0;
        all.push_back(o);
      }
    }
  }
  Claim claim;
  claim.terms = {{1, "g/performer", "spikes"}, {-1, "g/dark", "spikes"}};
  claim.sample = "lr";
  claim.where = {{"clip", 0}};
  EXPECT_EQ(evaluate_claim("e", claim, all).values.size(), 3U);
  EXPECT_EQ(evaluate_claim("e", claim, all).verdict, Verdict::kHolds);
  claim.where = {{"clip", 1}};
  EXPECT_EQ(evaluate_claim("e", claim, all).verdict, Verdict::kUndecided);
  claim.terms = {{1, "g/performer?clip=0", "spikes"}, {-1, "g/performer?clip=1", "spikes"}};
  EXPECT_EQ(evaluate_claim("e", claim, all).verdict, Verdict::kHolds);
}

TEST(Claims, values_that_are_not_finite_do_not_count) {
  auto all = pairs({0.3, 0.31, std::nan("")}, {0.2, 0.21, 0.22});
  EXPECT_EQ(evaluate_claim("e", difference(), all).values.size(), 2U);
}

TEST(Selector, names_runs) {
  const RunSelector runs = parse_selector("other:group/arm?features=16", "mine");
  EXPECT_EQ(runs.experiment, "other");
  EXPECT_EQ(runs.group, "group");
  EXPECT_EQ(runs.arm, "arm");
  ASSERT_EQ(runs.grid.size(), 1U);
  EXPECT_EQ(runs.grid[0].first, "features");
  EXPECT_EQ(runs.grid[0].second, OrderedJson(16));
  EXPECT_EQ(parse_selector("group/arm", "mine").experiment, "mine");
  EXPECT_THROW(parse_selector("group", "mine"), Error);
}

TEST(Log, gives_shares_curves_and_spikes) {
  std::vector<Json> lines;
  for (int step = 1; step <= 100; ++step) {
    lines.push_back({{"step", step},
                     {"loss", 10.0 - 0.05 * step},
                     {"accuracy", 0.01 * step},
                     {"spikes", step / 50},
                     {"skipped", 0}});
  }
  lines[99]["loss"] = nullptr;  // a step that was left out
  Observation o;
  observe_log(lines, 100, o);
  EXPECT_NEAR(o.values["train_accuracy@0.25"], 0.01 * (16 + 25) / 2, 1e-12);
  EXPECT_NEAR(o.values["train_accuracy@1"], 0.01 * (91 + 100) / 2, 1e-12);
  EXPECT_NEAR(o.values["train_loss@1"], 10 - 0.05 * (91 + 99) / 2, 1e-12);
  EXPECT_EQ(o.values["spikes"], 2);
  EXPECT_EQ(o.curves["loss"].x.back(), 100);
  EXPECT_EQ(o.curves["accuracy"].y.front(), 0.01);
}

TEST(Bench, exponents_come_from_the_longest_lengths) {
  OrderedJson result;
  for (const double length : {100.0, 200.0, 400.0}) {
    result["rows"].push_back({{"features", 8},
                              {"length", length},
                              {"forward", {{"seconds", 3 * length}}},
                              {"forward_backward", {{"seconds", 9 * length}}},
                              {"exact_forward", {{"seconds", length * length}}},
                              {"exact_forward_backward", {{"seconds", length * length}}}});
  }
  Observation start;
  start.arm = "dark";
  EXPECT_NEAR(observe_bench(result, start).back().values["time_exponent"], 1, 1e-12);
  start.arm = "exact";
  EXPECT_NEAR(observe_bench(result, start).back().values["time_exponent"], 2, 1e-12);
}

}  // namespace
}  // namespace darkformer::reproduce::claims_test
