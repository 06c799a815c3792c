// Planning and doing: with a shell script in the program's place.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/jobs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/interrupt.h"
#include "darkformer/base/read_file.h"
#include "darkformer/base/scratch_folder.h"

namespace darkformer::reproduce::jobs_test {
namespace {

namespace fs = std::filesystem;

// Appends its first argument to the file `calls`, and fails, waits or prints as that says.
constexpr const char* kProgram = R"(#!/bin/sh
echo "$1" >> calls
case "$1" in
  fail*) echo "darkformer: the reason" >&2; exit 1;;
  torn*) [ -e whole ] || { touch whole; kill -9 $$; };;
esac
echo '{"said": "'"$1"'"}'
)";

class Jobs : public testing::Test {
 protected:
  Jobs() {
    std::ofstream(program()) << kProgram;
    fs::permissions(program(), fs::perms::owner_all);
  }
  fs::path program() const { return scratch_.path() / "program"; }
  fs::path folder() const { return scratch_.path(); }

  static Job job(const std::string& name, const std::vector<std::string>& needs = {}) {
    Job job;
    job.name = name, job.arguments = {name}, job.needs = needs;
    return job;
  }
  void run(const std::vector<Job>& jobs, int at_once = 2) const {
    JobOptions options;
    options.folder = folder(), options.program = program(), options.at_once = at_once;
    run_jobs(jobs, options);
  }
  std::string calls() const { return read_file(folder() / "calls"); }

 private:
  ScratchFolder scratch_;
};

TEST_F(Jobs, are_done_after_what_they_need_and_once) {
  const std::vector<Job> jobs = {job("c", {"b"}), job("b", {"a"}), job("a")};
  run(jobs);
  EXPECT_EQ(calls(), "a\nb\nc\n");
  EXPECT_EQ(job_result(folder(), "c")["said"], "c");
  run(jobs);
  EXPECT_EQ(calls(), "a\nb\nc\n");
}

TEST_F(Jobs, with_other_arguments_are_done_again) {
  run({job("a")});
  Job other = job("a");
  other.arguments.push_back("more");
  run({other});
  EXPECT_EQ(calls(), "a\na\n");
}

TEST_F(Jobs, that_fail_are_named_with_their_reason) {
  try {
    run({job("fail-here"), job("after", {"fail-here"})}, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "fail-here: darkformer: the reason");
  }
  EXPECT_EQ(calls(), "fail-here\n");
  EXPECT_THROW(job_result(folder(), "fail-here"), Error);
}

TEST_F(Jobs, that_were_killed_are_done_again_from_a_clean_folder) {
  Job torn = job("torn");
  torn.makes = "models/torn";
  fs::create_directories(folder() / "models" / "torn");
  std::ofstream(folder() / "models" / "torn" / "half") << "half";
  EXPECT_THROW(run({torn}), Error);
  run({torn});
  EXPECT_EQ(calls(), "torn\ntorn\n");
  EXPECT_FALSE(fs::exists(folder() / "models" / "torn" / "half"));
}

TEST_F(Jobs, that_resume_keep_their_folder) {
  Job training = job("training");
  training.makes = "runs/training", training.resumes = true;
  fs::create_directories(folder() / "runs" / "training");
  run({training}, 1);
  EXPECT_TRUE(fs::exists(folder() / "runs" / "training"));
}

TEST_F(Jobs, stop_when_asked) {
  set_interrupted(true);
  EXPECT_THROW(run({job("a")}), Interrupted);
  set_interrupted(false);
  EXPECT_FALSE(fs::exists(folder() / "calls"));
}

TEST_F(Jobs, that_need_what_nobody_makes_are_an_error) {
  EXPECT_THROW(run({job("a", {"b"})}), Error);
}

Library small_library() {
  Library library;
  library.arms = parse_arms(OrderedJson::parse(R"({"exact": {"label": "exact"},
                             "dark": {"label": "dark", "convert": {"attention": "dark"}},
                             "constant": {"label": "c", "convert": {"attention": "constant"}}})"),
                            "arms");
  library.scales = parse_scales(
      OrderedJson::parse(R"({"s": {"seeds": 2, "checkpoints": 4, "train": {"lr": 0.1, "warmup": 50},
                                   "convert": {"features": 8}, "budgets": {"b": 16}},
                             "t": {"like": "s", "train": {"lr": 0.2}}})"),
      "scales");
  const OrderedJson runs = OrderedJson::parse(
      R"([{"name": "g", "command": "finetune", "budget": "b", "arms": ["exact", "dark", "constant"],
           "grid": {"clip": [1, 0]}}])");
  for (const char* name : {"one", "two"}) {
    library.experiments.push_back(parse_experiment(
        {{"name", name}, {"title", ""}, {"paper", ""}, {"statement", ""}, {"runs", runs}}, name));
  }
  return library;
}

TEST(Plan, shares_equal_jobs_and_gives_all_kinds_the_same_options) {
  const Library library = small_library();
  const Inputs inputs = {"model", {"data"}, {"held"}, 2, 1};
  const Plan one = make_plan(library, {"one"}, library.scales.at("s"), inputs);
  const Plan both = make_plan(library, {"one", "two"}, library.scales.at("s"), inputs);
  EXPECT_EQ(one.runs.size(), 12U);  // 3 arms, 2 seeds, 2 values of clip
  EXPECT_EQ(both.runs.size(), 24U);
  EXPECT_EQ(one.jobs.size(), both.jobs.size());
  EXPECT_EQ(one.jobs.size(), 1 + 4 + 12 + 12U);  // tokens, conversions, trainings, evaluations
  OrderedJson shared;
  for (const PlannedRun& run : one.runs) {
    OrderedJson options = run.settings;
    for (const char* own : {"attention", "features", "clip"}) {
      options.erase(own);
    }
    if (!shared.is_null()) {
      EXPECT_EQ(Json(options), Json(shared)) << run.arm;
    }
    shared = options;
    EXPECT_EQ(run.settings.contains("features"), run.arm == "dark");
    EXPECT_EQ(run.settings["warmup"], 16);  // no longer than the run
  }
}

TEST(Plan, names_depend_on_the_settings) {
  const Library library = small_library();
  const Inputs inputs = {"model", {"data"}, {"held"}, 1, 1};
  const Plan s = make_plan(library, {"one"}, library.scales.at("s"), inputs);
  const Plan t = make_plan(library, {"one"}, library.scales.at("t"), inputs);
  EXPECT_NE(s.runs[0].main_job, t.runs[0].main_job);
  EXPECT_EQ(t.runs[0].settings["warmup"], 16);  // taken over from s
}

TEST(Plan, names_depend_on_what_is_read) {
  const Library library = small_library();
  Inputs inputs = {"model", {"data"}, {"held"}, 1, 1};
  const Plan before = make_plan(library, {"one"}, library.scales.at("s"), inputs);
  inputs.contents = 1;
  const Plan after = make_plan(library, {"one"}, library.scales.at("s"), inputs);
  ASSERT_EQ(before.jobs.size(), after.jobs.size());
  for (std::size_t i = 0; i < before.jobs.size(); ++i) {
    EXPECT_NE(before.jobs[i].name, after.jobs[i].name);
  }
}

TEST(Plan, spreads_a_grid) {
  EXPECT_EQ(spread_values({1, 2, 3, 4, 5}, 2), (std::vector<OrderedJson>{1, 5}));
  EXPECT_EQ(spread_values({1, 2, 3, 4, 5}, 3), (std::vector<OrderedJson>{1, 3, 5}));
  EXPECT_EQ(spread_values({1, 2}, 0).size(), 2U);
  EXPECT_EQ(spread_values({1, 2}, 3).size(), 2U);
}

TEST(Experiments, compiled_in_are_whole) {
  const Library& all = library();
  EXPECT_GE(all.experiments.size(), 10U);
  for (const char* scale : {"tiny", "small", "gemma-2b", "quick", "miniature"}) {
    EXPECT_EQ(all.scales.count(scale), 1U) << scale;
  }
  EXPECT_EQ(all.scales.at("miniature").model,
            "models/gemma-tiny");  // like quick, which is like tiny
}

TEST(Experiments, with_mistakes_are_refused) {
  Library broken = small_library();
  broken.experiments[0].groups[0].arms.push_back("nobody");
  EXPECT_THROW(check_library(broken), Error);
  broken = small_library();
  broken.experiments[0].groups[0].budget = "none";
  EXPECT_THROW(check_library(broken), Error);
  broken = small_library();
  Claim claim;
  claim.terms = {{1, "g/performer", "accuracy"}};
  broken.experiments[0].claims.push_back(claim);
  EXPECT_THROW(check_library(broken), Error);
  EXPECT_THROW(parse_experiment(OrderedJson{{"nmae", "x"}}, "file"), Error);
}

}  // namespace
}  // namespace darkformer::reproduce::jobs_test
