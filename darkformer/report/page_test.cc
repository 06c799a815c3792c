// Pages from results: what they hold, and results they are not made from.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/report/page.h"

#include <gtest/gtest.h>

#include <limits>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/report/results.h"

namespace darkformer::report::page_test {
namespace {

Results sample() {
  const double inf = std::numeric_limits<double>::infinity();
  Results results;
  results.kind = "variance";
  results.title = "A <title> & more";
  results.summary = "</script><script>alert(1)</script>";
  results.statements = {{"Lemma", "holds", "It does.", "1.0"}};
  const LineChart chart{
      "Lines", "a note", {"F", true}, {"error", true}, {{"a", {1, 2}, {3, inf}, {2, 3}, {4, 5}}}};
  const HeatMap heat{"Heat", "", "layer", {"0"}, {"h0", "h1"}, {{1.0, 2.0}}};
  const Table table{"Table", "", {"x", "y"}, {{"text", 0.5}}};
  results.sections = {{"Section", {"words"}, {figure(chart), figure(heat), figure(table)}}};
  results.command = "darkformer variance";
  results.settings = {{"seed", 1}};
  return results;
}

TEST(ReportPage, HoldsResultsScriptsAndStylesAndNothingFromOutside) {
  const std::string page = report_page(results_json(sample()), "test");
  for (const char* part : {"uPlot", "A &lt;title> &amp; more", "\"seed\":1", "\"low\":[2.0,3.0]",
                           "[3.0,null]", "prefers-color-scheme", "\\u003c/script>"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(http"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

TEST(ReportPage, IsDrawnAgainFromItsFile) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "results.json", page = scratch.path() / "report.html";
  write_json(file, results_json(sample()));
  write_report(file, page);
  EXPECT_GT(std::filesystem::file_size(page), 50000U);
}

TEST(ReportPage, RefusesOtherFiles) {
  OrderedJson results = results_json(sample());
  const auto refused = [](const OrderedJson& value, const std::string& part) {
    try {
      report_page(value, "r.json");
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("r.json"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused(OrderedJson::array(), "not a results file");
  refused({{"format", "other"}}, "not a results file");
  OrderedJson changed = results;
  changed["format_version"] = 9;
  refused(changed, "9");
  changed = results;
  changed.erase("title");
  refused(changed, "title");
  changed = results;
  changed["sections"][0]["figures"][0]["type"] = "pie";
  refused(changed, "pie");
  changed = results;
  changed["sections"][0]["figures"][2].erase("rows");
  refused(changed, "rows");
}

}  // namespace
}  // namespace darkformer::report::page_test
