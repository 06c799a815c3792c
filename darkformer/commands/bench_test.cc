// Each part of bench on tiny sizes: it checks its answers, and the numbers are all there.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::bench_test {
namespace {

// Every named number of every row is a positive one.
void expect_numbers(const Json& rows, const std::vector<std::string>& names) {
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows) {
    for (const std::string& name : names) {
      ASSERT_TRUE(row.contains(name)) << name << " is not in " << row.dump();
      EXPECT_GT(row[name].get<double>(), 0) << name;
    }
  }
}

TEST(Bench, TrainMeasuresEveryKindBesideItsRival) {
  const Outcome outcome = run({"bench", "train", "--lengths", "16", "--tokens", "32", "--threads",
                               "1", "--features", "8", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json rows = outcome.json()["rows"];
  ASSERT_EQ(rows.size(), 6U);
  expect_numbers(rows, {"tokens_per_second", "context", "batch"});
  for (const Json& row : rows) {
    const std::string kind = row["attention"];
    EXPECT_EQ(row.contains("ratio"), kind != "constant" && kind != "random") << kind;
  }
}

TEST(Bench, AttentionMeasuresBothKindsBesideTheirRivals) {
  const Outcome outcome = run({"bench", "attention", "--lengths", "64", "--threads", "1", "--heads",
                               "2", "--head-sizes", "16", "--features", "8", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json rows = outcome.json()["rows"];
  ASSERT_EQ(rows.size(), 1U);
  expect_numbers(rows, {"bytes", "features_win_from"});
  const Json& row = rows[0];
  expect_numbers(Json::array({row["forward"], row["forward_backward"]}),
                 {"seconds", "share_of_peak", "rival_seconds", "ratio"});
  expect_numbers(Json::array({row["exact_forward"], row["exact_forward_backward"]}),
                 {"seconds", "rival_seconds", "ratio"});
}

TEST(Bench, AttentionAndDecodeWantAsManyFeaturesAsHeadSizes) {
  for (const char* part : {"attention", "decode"}) {
    EXPECT_EQ(run({"bench", part, "--head-sizes", "16", "--features", "8", "16"}).code, 2) << part;
  }
}

TEST(Bench, DecodeMeasuresStatesCachesAndAModel) {
  const Outcome outcome =
      run({"bench", "decode", "--lengths", "64", "100000", "--heads", "2", "--head-sizes", "16",
           "--features", "8", "--model", golden_folder("gemma1"), "--batch", "1,3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json result = outcome.json();
  expect_numbers(result["rows"], {"seconds", "state_bytes", "context"});
  EXPECT_TRUE(result["rows"][0].contains("exact_seconds"));
  EXPECT_FALSE(result["rows"][1].contains("exact_seconds"));  // too long to keep
  expect_numbers(result["models"], {"seconds", "weight_bytes", "read_seconds", "share_of_read"});
  expect_numbers(result["batches"], {"tokens_per_second", "batch", "ratio"});
  EXPECT_EQ(result["batches"].size(), 2 * result["models"].size());
  EXPECT_EQ(result["batches"][0]["ratio"], 1.0);
  EXPECT_EQ(result["batches"][1]["batch"], 3);
}

TEST(Bench, DecodeNamesAMissingModel) {
  expect_failure(run({"bench", "decode", "--lengths", "64", "--heads", "1", "--head-sizes", "8",
                      "--features", "8", "--model", "/no/such/folder", "--json"}),
                 {"/no/such/folder"});
}

TEST(Bench, TrainRefusesAnUnknownKind) {
  const Outcome outcome = run({"bench", "train", "--kinds", "sharp"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.errors.find("sharp"), std::string::npos) << outcome.errors;
}

TEST(Bench, RunsAreTakenInTurn) {
  std::string order;
  const auto timings = time_in_turn({[&] { order += 'a'; }, [&] { order += 'b'; }}, 0.0);
  EXPECT_EQ(order, "abababababab");  // once to warm up, then five times
  ASSERT_EQ(timings.size(), 2U);
}

TEST(Bench, RatiosAreOfNeighboursOrOfTheFastest) {
  // The machine became three times slower after two turns, and `below` had one run more.
  const Timing above{0.0, 0.0, {2.5, 2.5, 7.5, 7.0}}, below{0.0, 0.0, {1.0, 1.0, 3.0, 2.0, 9.0}};
  {
    const ThreadCount cpu_time(1);
    EXPECT_DOUBLE_EQ(ratio_in_turn(above, below), 2.5);
  }
  const Timing disturbed{0.0, 0.0, {8.0, 4.0, 3.0}}, alone{0.0, 0.0, {6.0, 1.5, 6.0}};
  const ThreadCount wall_time(2);
  EXPECT_DOUBLE_EQ(ratio_in_turn(disturbed, alone), 2.0);
}

TEST(Bench, AttentionOnTwoThreadsTellsTheGainOverOne) {
  std::vector<std::string> words = {
      "bench", "attention",   "--lengths",  "64",           "--threads", "2",          "--heads",
      "2",     "--no-rivals", "--no-exact", "--head-sizes", "16",        "--features", "8"};
  EXPECT_NE(run(words).out.find("1 thr"), std::string::npos);
  words.push_back("--json");
  const Json row = run(words).json()["rows"][0];
  expect_numbers(Json::array({row["forward"], row["forward_backward"]}), {"speed_up"});
  EXPECT_FALSE(row.contains("exact_forward") || row.contains("features_win_from"));
}

}  // namespace
}  // namespace darkformer::bench_test
