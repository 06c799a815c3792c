// Observations to statements, lines with bands, and tables of runs.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/reproduction.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/reproduce/jobs.h"

namespace darkformer::reproduce {
namespace {

namespace fs = std::filesystem;

bool is_chosen(const Reproduction& all, const Experiment& experiment) {
  return std::find(all.experiments.begin(), all.experiments.end(), experiment.name) !=
         all.experiments.end();
}

// The word and style of the page for a verdict.
std::string page_verdict(Verdict verdict) {
  return verdict == Verdict::kHolds         ? "holds"
         : verdict == Verdict::kDoesNotHold ? "fails"
                                            : "undecided";
}

std::string terms_text(const ClaimResult& result) {
  std::string text = result.claim.measure;
  std::string separator = ": ";
  for (const TermResult& term : result.terms) {
    text += concat(separator, term.run, " ", interval_text(term.interval));
    separator = ", ";
  }
  return text;
}

std::vector<report::Statement> statements_of(const Reproduction& all) {
  std::vector<report::Statement> statements;
  for (const ClaimResult& result : all.claims) {
    statements.push_back({result.claim.statement, page_verdict(result.verdict), terms_text(result),
                          interval_text(result.interval)});
  }
  for (const OrderedJson& statement : all.variance) {
    statements.push_back({statement.value("name", ""), statement.value("verdict", ""),
                          statement.value("text", ""), statement.value("number", "")});
  }
  return statements;
}

// y values of an arm by x, over seeds and the grid values that are left open.
using Points = std::map<double, std::vector<double>>;

Points points_of(const Reproduction& all,
                 const Experiment& experiment,
                 const Chart& chart,
                 const std::string& arm) {
  Points points;
  for (const Observation& o : all.observations) {
    if (o.experiment != experiment.name || o.group != chart.group || o.arm != arm ||
        !has_grid(o.grid, chart.where)) {
      continue;
    }
    if (chart.x == "step") {
      const auto curve = o.curves.find(chart.quantity);
      for (std::size_t i = 0; curve != o.curves.end() && i < curve->second.x.size(); ++i) {
        points[curve->second.x[i]].push_back(curve->second.y[i]);
      }
    } else {
      const auto x = o.grid.find(chart.x);
      const auto y = o.values.find(chart.quantity);
      if (x != o.grid.end() && x->second.is_number() && y != o.values.end()) {
        points[x->second.get<double>()].push_back(y->second);
      }
    }
  }
  return points;
}

report::Series series_of(const std::string& name, const Points& points) {
  report::Series series{name, {}, {}};
  for (const auto& [x, values] : points) {
    std::vector<double> finite;
    std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
                 [](double value) { return std::isfinite(value); });
    const Interval interval = interval_of(finite);
    series.x.push_back(x), series.y.push_back(interval.mean);
    const bool band = interval.values > 1;
    series.low.push_back(band ? interval.low : interval.mean);
    series.high.push_back(band ? interval.high : interval.mean);
  }
  return series;
}

OrderedJson chart_of(const Reproduction& all, const Experiment& experiment, const Chart& chart) {
  report::LineChart lines;
  lines.title = chart.title;
  lines.note = chart.note.empty() ? "Bands: 95 % interval over the runs of a line." : chart.note;
  lines.x = {chart.x, chart.log_x}, lines.y = {chart.y_label, chart.log_y};
  for (const RunGroup& group : experiment.groups) {
    for (const std::string& arm : group.arms) {
      const Points points =
          group.name == chart.group ? points_of(all, experiment, chart, arm) : Points();
      if (!points.empty()) {
        lines.series.push_back(series_of(all.library.arms.at(arm).label, points));
      }
    }
  }
  return report::figure(lines);
}

std::string grid_text(const std::map<std::string, OrderedJson>& grid) {
  std::string text;
  for (const auto& [name, value] : grid) {
    text += concat(text.empty() ? "" : ", ", name, " ", value.dump());
  }
  return text;
}

std::string options_text(const OrderedJson& options) {
  std::string text;
  for (const std::string& word : option_arguments(options)) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// What was measured for each run, and with which options.
std::vector<OrderedJson> run_tables(const Reproduction& all, const Experiment& experiment) {
  report::Table measured{
      "Measured",
      "Held-out text; spikes and skipped steps of training.",
      {"runs", "attention", "grid", "seed", "accuracy", "loss", "spikes", "skipped"},
      {}};
  for (const Observation& o : all.observations) {
    if (o.experiment == experiment.name && o.values.count("accuracy") + o.values.count("spikes")) {
      const auto value = [&](const char* name) {
        const auto found = o.values.find(name);
        return found == o.values.end() || !std::isfinite(found->second)
                   ? OrderedJson()
                   : OrderedJson(found->second);
      };
      measured.rows.push_back({o.group, all.library.arms.at(o.arm).label, grid_text(o.grid), o.seed,
                               value("accuracy"), value("loss"), value("spikes"),
                               value("skipped")});
    }
  }
  report::Table settings{"Settings",
                         "Those of the first seed; the others differ in the seed alone.",
                         {"runs", "attention", "folder", "options"},
                         {}};
  for (const PlannedRun& run : all.plan.runs) {
    if (run.experiment == experiment.name && run.seed == all.plan.runs.front().seed) {
      settings.rows.push_back({run.group, all.library.arms.at(run.arm).label,
                               run.folder.empty() ? run.main_job : run.folder,
                               options_text(run.settings)});
    }
  }
  std::vector<OrderedJson> figures;
  if (!measured.rows.empty()) {
    figures.push_back(report::figure(measured));
  }
  figures.push_back(report::figure(settings));
  return figures;
}

std::vector<OrderedJson> variance_statements(const Plan& plan, const fs::path& folder) {
  std::vector<OrderedJson> statements;
  for (const PlannedRun& run : plan.runs) {
    if (run.command == "variance" && statements.empty() && has_result(folder, run.main_job)) {
      const OrderedJson result = job_result(folder, run.main_job);
      for (const OrderedJson& statement : result.value("statements", OrderedJson::array())) {
        statements.push_back(statement);
      }
    }
  }
  return statements;
}

}  // namespace

Reproduction read_reproduction(const Library& library,
                               const Scale& scale,
                               const Plan& plan,
                               const std::vector<std::string>& experiments,
                               const fs::path& folder) {
  Reproduction all{library, scale, plan, experiments, observe(plan, folder), {}, {}};
  all.variance = variance_statements(plan, folder);
  for (const Experiment& experiment : library.experiments) {
    if (is_chosen(all, experiment)) {
      for (const Claim& claim : experiment.claims) {
        all.claims.push_back(evaluate_claim(experiment.name, claim, all.observations));
      }
    }
  }
  return all;
}

OrderedJson claims_json(const Reproduction& reproduction) {
  OrderedJson list = OrderedJson::array();
  for (const ClaimResult& claim : reproduction.claims) {
    list.push_back(claim_json(claim));
  }
  for (const OrderedJson& statement : reproduction.variance) {
    list.push_back({{"experiment", "variance"},
                    {"name", statement.value("name", "")},
                    {"statement", statement.value("text", "")},
                    {"measure", statement.value("number", "")},
                    {"verdict", statement.value("verdict", "")}});
  }
  return list;
}

report::Results reproduction_results(const Reproduction& all) {
  report::Results results;
  results.kind = "reproduction";
  results.title = "The paper's experiments, at the scale " + all.scale.name;
  results.summary =
      "Each statement of the paper with what was measured here: the mean over seeds, its 95 % "
      "interval (Student's t, paired by seed) and a verdict. All kinds of attention share every "
      "option that is not named in their own row of settings.";
  results.statements = statements_of(all);
  for (const Experiment& experiment : all.library.experiments) {
    if (!is_chosen(all, experiment)) {
      continue;
    }
    report::Section section;
    section.title = concat(experiment.title, " (", experiment.paper, ")");
    section.text = experiment.text;
    section.text.insert(section.text.begin(), "The paper: " + experiment.statement);
    for (const Chart& chart : experiment.charts) {
      section.figures.push_back(chart_of(all, experiment, chart));
    }
    for (const OrderedJson& table : run_tables(all, experiment)) {
      section.figures.push_back(table);
    }
    results.sections.push_back(section);
  }
  return results;
}

}  // namespace darkformer::reproduce
