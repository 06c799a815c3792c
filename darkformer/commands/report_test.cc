// Pages of runs and of results files, and what no page is made of.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::report_test {
namespace {

namespace fs = std::filesystem;

class Report : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // A run as finetune leaves it, as far as a page looks at it.
  void make_run(const std::string& name, int steps, const std::string& rate) const {
    fs::create_directories(path(name));
    std::string lines;
    for (int step = 1; step <= steps; ++step) {
      Json line = {{"step", step},
                   {"tokens", 10 * step},
                   {"loss", 5.0 / step},
                   {"accuracy", 0.1},
                   {"gradient_norm", 1.0},
                   {"learning_rate", 0.001},
                   {"tokens_per_second", 100.0 * step},
                   {"spikes", 0},
                   {"skipped", 0},
                   {"memory", 1048576}};
      if (step % 2 == 0) {
        line["held_out_loss"] = 6.0 / step;
        line["covariance_condition"] = {2.0, 7.0, 3.0};
      }
      if (step == 3) {
        line["loss"] = nullptr;  // it was not finite
      }
      lines += line.dump() + "\n";
    }
    write_bytes(path(name + "/log.jsonl"), lines);
    write_bytes(path(name + "/run.toml"),
                "command = \"finetune\"\n[options]\nlr = " + rate + "\nsteps = 4\n");
  }

  // The results that a page holds.
  static Json results_in(const std::string& page) {
    const std::string text = read_bytes(page), mark = "id=\"results\">";
    const std::size_t begin = text.find(mark) + mark.size();
    return parse_json(text.substr(begin, text.find("</script>", begin) - begin), page);
  }

  // The figure of this title, or null.
  static Json figure_of(const Json& results, const std::string& title) {
    for (const Json& section : results["sections"]) {
      for (const Json& figure : section["figures"]) {
        if (figure["title"] == title) {
          return figure;
        }
      }
    }
    return nullptr;
  }

  ScratchFolder scratch_;
};

TEST_F(Report, RunsSideBySide) {
  make_run("one", 4, "0.001");
  make_run("two", 6, "0.002");
  const Outcome outcome = run({"report", path("one"), path("two"), "--out", path("a/page.html")});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
  EXPECT_EQ(outcome.out, "wrote " + path("a/page.html") + "\n");
  const Json results = results_in(path("a/page.html"));
  EXPECT_EQ(results["command"], "darkformer report " + path("one") + " " + path("two") + " --out " +
                                    path("a/page.html"));
  const Json loss = figure_of(results, "Loss");
  ASSERT_EQ(loss["series"].size(), 4U);
  EXPECT_EQ(loss["series"][0]["name"], "one");
  EXPECT_EQ(loss["series"][0]["x"], Json({1, 2, 4}));  // step 3 was not finite
  EXPECT_EQ(loss["series"][0]["y"], Json({5.0, 2.5, 1.25}));
  EXPECT_EQ(loss["series"][3]["name"], "two, held out");
  EXPECT_EQ(loss["series"][3]["dash"], true);
  EXPECT_EQ(loss["series"][3]["colour"], loss["series"][2]["colour"]);
  EXPECT_NE(loss["series"][3]["colour"], loss["series"][1]["colour"]);
  EXPECT_EQ(loss["series"][3]["y"], Json({3.0, 1.5, 1.0}));
  EXPECT_EQ(figure_of(results, "Memory in MiB")["series"][0]["y"][0], 1.0);
  EXPECT_EQ(figure_of(results,
                      "Condition of the covariance, the largest of all layers")["series"][0]["y"],
            Json({7.0, 7.0}));
  EXPECT_TRUE(figure_of(results, "KL(teacher || model)").is_null()) << "no run has it";
  EXPECT_EQ(figure_of(results, "At the last step")["rows"][1],
            Json({"two", 6.0, 60.0, 5.0 / 6, 0.1, 1.0, 6.0, 0.0, 0.0, 400.0}));
  EXPECT_EQ(figure_of(results, "What differs")["rows"], Json({{"lr", "0.001", "0.002"}}));
  EXPECT_EQ(figure_of(results, "All of them")["rows"].size(), 2U);
}

TEST_F(Report, LongLogsBecomeMeansWithABand) {
  make_run("long", 2500, "0.001");
  ASSERT_EQ(run({"report", path("long"), "--out", path("page.html")}).code, kExitDone);
  const Json rates = figure_of(results_in(path("page.html")), "Tokens a second")["series"][0];
  EXPECT_EQ(rates["x"].size(), 834U);  // of three steps each
  EXPECT_EQ(rates["x"][0], 3.0);
  EXPECT_EQ(rates["y"][0], 200.0);
  EXPECT_EQ(rates["low"][0], 100.0);
  EXPECT_EQ(rates["high"][0], 300.0);
  EXPECT_EQ(rates["x"].back(), 2500.0);
}

TEST_F(Report, RunsOfOneNameAreToldApart) {
  make_run("a/run", 2, "0.1");
  make_run("b/run", 2, "0.1");
  ASSERT_EQ(run({"report", path("a/run/"), path("b/run"), "--out", path("page.html")}).code,
            kExitDone);
  const Json loss = figure_of(results_in(path("page.html")), "Loss");
  EXPECT_EQ(loss["series"][0]["name"], path("a/run/"));
  EXPECT_EQ(loss["series"][2]["name"], path("b/run"));
}

// A run that was killed, or is going on, may end in half a line.
TEST_F(Report, ALogCutInItsLastLine) {
  make_run("cut", 4, "0.001");
  fs::resize_file(path("cut/log.jsonl"), fs::file_size(path("cut/log.jsonl")) - 9);
  fs::remove(path("cut/run.toml"));
  ASSERT_EQ(run({"report", path("cut"), "--out", path("page.html")}).code, kExitDone);
  const Json results = results_in(path("page.html"));
  EXPECT_EQ(figure_of(results, "At the last step")["rows"][0][1], 3.0);
  EXPECT_EQ(figure_of(results, "All of them")["rows"].size(), 0U);
}

TEST_F(Report, WhatIsNoRun) {
  const auto refused = [&](const std::string& name, const std::vector<std::string>& parts) {
    expect_failure(run({"report", path(name), "--out", path("page.html")}), parts);
    EXPECT_FALSE(fs::exists(path("page.html")));
  };
  refused("missing", {path("missing"), "no such file or folder"});
  fs::create_directories(path("empty"));
  refused("empty", {path("empty"), "neither log.jsonl", "results.json"});
  write_bytes(path("empty/log.jsonl"), "");
  refused("empty", {path("empty/log.jsonl"), "no whole step"});
  write_bytes(path("empty/log.jsonl"), "{\"step\": 1, \"lo");
  refused("empty", {path("empty/log.jsonl"), "no whole step"});
  write_bytes(path("empty/log.jsonl"), "{\"step\": 1}\nnonsense\n{\"step\": 2}\n");
  refused("empty", {path("empty/log.jsonl"), "2"});
  write_bytes(path("empty/log.jsonl"), "[1]\n");
  refused("empty", {path("empty/log.jsonl")});
  write_bytes(path("empty/log.jsonl"), "{\"loss\": 1}\n");
  refused("empty", {path("empty/log.jsonl"), "step"});
  write_bytes(path("other.json"), "{}");
  refused("other.json", {path("other.json"), "not a results file"});
}

TEST_F(Report, AResultsFileIsDrawnAgain) {
  make_run("one", 4, "0.001");
  ASSERT_EQ(run({"report", path("one"), "--out", path("first.html")}).code, kExitDone);
  fs::create_directories(path("results"));
  write_bytes(path("results/results.json"), results_in(path("first.html")).dump());
  for (const char* name : {"results", "results/results.json"}) {
    const Outcome outcome = run({"report", path(name), "--out", path("again.html"), "--json"});
    ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
    EXPECT_EQ(outcome.json()["out"], path("again.html"));
    EXPECT_EQ(results_in(path("again.html")), results_in(path("first.html")));
  }
  const Outcome mixed = run({"report", path("one"), path("results"), "--out", path("mixed.html")});
  EXPECT_EQ(mixed.code, kExitUsage);
  EXPECT_NE(mixed.errors.find("a page of its own"), std::string::npos) << mixed.errors;
  EXPECT_FALSE(fs::exists(path("mixed.html")));
}

}  // namespace
}  // namespace darkformer::report_test
