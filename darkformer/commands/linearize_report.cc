// Tables and curves from the stages' results.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/linearize_report.h"

#include <iomanip>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/system_info.h"
#include "darkformer/commands/convert_fit.h"
#include "darkformer/commands/run_curves.h"

namespace darkformer {
namespace {

using report::Section;

constexpr const char* kSource = "stage results";
constexpr double kKept = 0.98;  // of an accuracy: what we call kept

double number_at(const OrderedJson& object, const char* key) {
  return get_value<double>(object, key, kSource);
}

std::string percent(double share) {
  return concat(std::fixed, std::setprecision(1), 100.0 * share, " %");
}

std::vector<OrderedJson> row(const std::string& name, const OrderedJson& result) {
  std::vector<OrderedJson> cells = {name};
  for (const char* key : {"loss", "perplexity", "accuracy", "kl", "agreement"}) {
    cells.push_back(result.contains(key) ? result[key] : OrderedJson(""));
  }
  return cells;
}

Section before_and_after(const LinearizeFacts& facts) {
  report::Table table{
      "On text that was not trained on",
      concat(count_text(get_value<std::int64_t>(facts.tuned, "tokens", kSource), "token"),
             "; KL and agreement are with the original"),
      {"model", "loss", "perplexity", "accuracy", "KL", "agreement"},
      {row("original", facts.base), row("converted", facts.converted),
       row("finetuned", facts.tuned)}};
  const auto bytes = [&](const char* key) {
    return bytes_text(get_value<std::uint64_t>(facts.conversion, key, kSource));
  };
  return {
      "Before and after",
      {concat("State of a sequence at ",
              count_text(get_value<std::int64_t>(facts.conversion, "context", kSource), "token"),
              ": ", bytes("state_bytes"), " against ", bytes("exact_state_bytes"),
              " of keys and values.")},
      {report::figure(table)}};
}

// The losses by position in the window, of the original and the result.
Section by_position(const LinearizeFacts& facts) {
  report::LineChart chart{"Loss by position",
                          "the mean from each position to the next",
                          {"position in the window", true},
                          {"loss", false},
                          {}};
  const auto add = [&](const std::string& name, const OrderedJson& result) {
    report::Series series{name, {}, {}};
    for (const OrderedJson& bucket : result["by_position"]) {
      series.x.push_back(number_at(bucket, "last") + 1);
      series.y.push_back(number_at(bucket, "loss"));
    }
    chart.series.push_back(series);
  };
  add("original", facts.base), add("converted", facts.converted), add("finetuned", facts.tuned);
  return {"Near and far", {}, {report::figure(chart)}};
}

Section components(const LinearizeFacts& facts) {
  report::Table table{"The same weights with a part of the attention", "", {"component"}, {}};
  table.columns.insert(table.columns.end(), {"loss", "accuracy"});
  for (const OrderedJson& part : facts.tuned["attribution"]) {
    std::vector<OrderedJson> cells = {part["component"], part["loss"], part["accuracy"]};
    for (const OrderedJson& score : part["probe"]) {
      if (table.rows.empty()) {
        table.columns.push_back(
            concat(score["task"].get<std::string>(), " ", score["distance"].get<std::int64_t>()));
      }
      cells.push_back(score["accuracy"]);
    }
    table.rows.push_back(cells);
  }
  return {"What does the work",
          {"Window only: no token looks further than the window. Linear only: the features for "
           "every key. Constant far field: the far field replaced by the mean of its values. Copy "
           "and recall: random tokens found again at a distance (darkformer eval)."},
          {report::figure(table)}};
}

Section training(const LinearizeFacts& facts) {
  std::vector<RunRecord> runs;
  for (const std::filesystem::path& file : facts.logs) {
    runs.push_back(read_run(file.parent_path()));
  }
  return {"Training",
          {},
          {curve_figure(runs, {"Loss", "loss", "held_out_loss"},
                        "transfer trains the attention alone; finetuning starts at step 0 again")}};
}

// The accuracy of a component, or nothing where there is no such component.
std::optional<double> accuracy_of(const OrderedJson& result, const std::string& component) {
  for (const OrderedJson& part : result.value("attribution", OrderedJson::array())) {
    if (part["component"] == component) {
      return number_at(part, "accuracy");
    }
  }
  return std::nullopt;
}

void add_statements(const LinearizeFacts& facts, report::Results& results) {
  const double kept = number_at(facts.tuned, "accuracy") / number_at(facts.base, "accuracy");
  results.statements.push_back({"Accuracy kept", kept >= kKept ? "holds" : "caveat",
                                "next-token accuracy over that of the original", percent(kept)});
  const auto full = accuracy_of(facts.tuned, "full");
  const auto window = accuracy_of(facts.tuned, "window only");
  if (full && window && *full > 0) {
    const double share = *window / *full;
    results.statements.push_back(
        {"Done by more than the window", share < kKept ? "holds" : "caveat",
         share < kKept ? "the window alone falls behind the whole"
                       : "on this text the window alone is nearly as good as the whole: it does "
                         "not tell whether the far field works; copy and recall do",
         percent(share)});
  }
}

std::vector<std::string> analysis_text(const OrderedJson& analysis) {
  std::vector<std::string> text;
  if (const auto verdict = find_value<std::string>(analysis, "verdict", kSource)) {
    text.push_back(*verdict);
  }
  text.push_back("Layer by layer: analysis/report.html in this folder.");
  return text;
}

}  // namespace

report::Results linearize_results(const LinearizeFacts& facts) {
  report::Results results;
  results.kind = "linearize";
  results.title = "A model with linear-time attention";
  results.summary = concat("Accuracy ", std::setprecision(4), number_at(facts.base, "accuracy"),
                           " before, ", number_at(facts.converted, "accuracy"), " converted, ",
                           number_at(facts.tuned, "accuracy"), " finetuned.");
  add_statements(facts, results);
  results.sections = {before_and_after(facts), components(facts), by_position(facts),
                      training(facts)};
  if (facts.conversion.contains("fit")) {
    results.sections.push_back(fit_section(facts.conversion["fit"]));
  }
  if (!facts.analysis.is_null()) {
    results.sections.push_back({"The analysis", analysis_text(facts.analysis), {}});
  }
  results.sections.push_back({"The same by hand", facts.commands, {}});
  return results;
}

}  // namespace darkformer
