// From the lines of logs to charts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/run_curves.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "darkformer/base/jsonl.h"
#include "darkformer/commands/run_toml.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;
using report::Section;
using report::Series;

constexpr std::size_t kMostPoints = 1000;

// The number_or_none of a line; nothing where it is missing or null, which is what is not finite.
std::optional<double> number_or_none(const Json& line, const std::string& key) {
  const auto found = line.find(key);
  if (found == line.end()) {
    return std::nullopt;
  }
  std::optional<double> largest;
  for (const Json& value : found->is_array() ? *found : Json::array({*found})) {
    if (value.is_number()) {
      largest = std::max(largest.value_or(value.get<double>()), value.get<double>());
    }
  }
  return largest;
}

Series points(const RunRecord& run, const std::string& key, const Curve& curve) {
  Series series{run.name, {}, {}};
  for (const Json& line : run.lines) {
    const auto value = number_or_none(line, key);
    if (value && (!curve.log || *value > 0)) {
      series.x.push_back(get_value<double>(line, "step", run.log.string()));
      series.y.push_back(*value / curve.unit);
    }
  }
  return series;
}

// As many means as a chart can show.
Series thinned(Series full) {
  const std::size_t block = (full.x.size() + kMostPoints - 1) / kMostPoints;
  if (block <= 1) {
    return full;
  }
  Series thin{full.name, {}, {}};
  for (std::size_t first = 0; first < full.x.size(); first += block) {
    const auto begin = full.y.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = static_cast<std::ptrdiff_t>(std::min(block, full.x.size() - first));
    const auto [least, greatest] = std::minmax_element(begin, begin + count);
    thin.x.push_back(full.x[first + static_cast<std::size_t>(count) - 1]);
    thin.y.push_back(std::accumulate(begin, begin + count, 0.0) / static_cast<double>(count));
    thin.low.push_back(*least), thin.high.push_back(*greatest);
  }
  return thin;
}

const std::vector<Curve>& all_curves() {
  constexpr double kMiB = 1 << 20;
  static const std::vector<Curve> curves = {
      {"Loss", "loss", "held_out_loss"},
      {"Accuracy of the next token", "accuracy", "held_out_accuracy"},
      {"KL(teacher || model)", "distillation_loss"},
      {"Distance of the attention's outputs to the teacher's", "attention_distance"},
      {"Learning rate", "learning_rate"},
      {"Norm of the gradient before clipping", "gradient_norm", "", true},
      {"Condition of the covariance, the largest of all layers", "covariance_condition", "", true},
      {"Tokens a second", "tokens_per_second"},
      {"Memory in MiB", "memory", "", false, kMiB}};
  return curves;
}

Section curves_section(const std::vector<RunRecord>& runs) {
  Section section{"Curves", {}, {}};
  for (const Curve& curve : all_curves()) {
    OrderedJson figure = curve_figure(runs, curve);
    if (!figure["series"].empty()) {
      section.figures.push_back(std::move(figure));
    }
  }
  return section;
}

OrderedJson cell(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson("");
}

// The line with the least held-out loss, or null.
const Json* best_line(const RunRecord& run) {
  const Json* best = nullptr;
  for (const Json& line : run.lines) {
    const auto loss = number_or_none(line, "held_out_loss");
    if (loss && (best == nullptr || *loss < *number_or_none(*best, "held_out_loss"))) {
      best = &line;
    }
  }
  return best;
}

std::optional<double> median_or_none(std::vector<double> values) {
  if (values.empty()) {
    return std::nullopt;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Section reached_section(const std::vector<RunRecord>& runs) {
  report::Table table{
      "At the last step",
      "Best: the least held-out loss. Tokens a second: the median_or_none of the steps.",
      {"run", "step", "tokens", "loss", "accuracy", "best held-out loss", "at step", "spikes",
       "skipped steps", "tokens a second"},
      {}};
  for (const RunRecord& run : runs) {
    const Json& last = run.lines.back();
    const Json* best = best_line(run);
    std::vector<OrderedJson> row = {run.name};
    for (const char* key : {"step", "tokens", "loss", "accuracy"}) {
      row.push_back(cell(number_or_none(last, key)));
    }
    for (const char* key : {"held_out_loss", "step"}) {
      row.push_back(cell(best == nullptr ? std::nullopt : number_or_none(*best, key)));
    }
    for (const char* key : {"spikes", "skipped"}) {
      row.push_back(cell(number_or_none(last, key)));
    }
    row.push_back(cell(median_or_none(points(run, "tokens_per_second", {}).y)));
    table.rows.push_back(row);
  }
  return {"Where they are", {}, {report::figure(table)}};
}

// A row for each option, a column for each run.
report::Table settings_table(const std::string& title,
                             const std::string& note,
                             const std::vector<RunRecord>& runs,
                             bool only_different) {
  report::Table table{title, note, {"option"}, {}};
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> values;  // of each run
  for (std::size_t i = 0; i < runs.size(); ++i) {
    table.columns.push_back(runs[i].name);
    for (const auto& [name, text] : runs[i].settings) {
      if (values.count(name) == 0) {
        names.push_back(name);
        values[name].resize(runs.size());
      }
      values[name][i] = text;
    }
  }
  for (const std::string& name : names) {
    const std::vector<std::string>& texts = values[name];
    if (!only_different || std::set<std::string>(texts.begin(), texts.end()).size() > 1) {
      std::vector<OrderedJson> row = {name};
      row.insert(row.end(), texts.begin(), texts.end());
      table.rows.push_back(row);
    }
  }
  return table;
}

Section settings_section(const std::vector<RunRecord>& runs) {
  Section section{"Settings", {}, {}};
  if (runs.size() > 1) {
    section.figures.push_back(report::figure(settings_table("What differs", "", runs, true)));
  }
  section.figures.push_back(report::figure(
      settings_table("All of them", "From run.toml; empty: not set, or no file.", runs, false)));
  return section;
}

}  // namespace

RunRecord read_run(const fs::path& folder) {
  const fs::path clean = fs::absolute(folder).lexically_normal();
  RunRecord run{(clean.has_filename() ? clean : clean.parent_path()).filename().string(),
                folder / "log.jsonl",
                {},
                {}};
  run.lines = read_jsonl(run.log);
  require(!run.lines.empty(), run.log.string(), ": no whole step is in it yet");
  for (const Json& line : run.lines) {
    require(line.is_object(), run.log.string(), ": holds a line that is no JSON object");
    get_value<double>(line, "step", run.log.string());
  }
  if (fs::exists(folder / "run.toml")) {
    run.settings = kept_options(folder / "run.toml");
  }
  return run;
}

OrderedJson curve_figure(const std::vector<RunRecord>& runs,
                         const Curve& curve,
                         const std::string& note) {
  std::string label = curve.key;
  std::replace(label.begin(), label.end(), '_', ' ');
  report::LineChart chart{curve.title, note, {"step", false}, {label, curve.log}, {}};
  std::vector<std::size_t> colours;  // a run has the same in all charts
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const bool is_held_out : {false, true}) {
      const std::string& key = is_held_out ? curve.held_out : curve.key;
      Series series = key.empty() ? Series{} : thinned(points(runs[i], key, curve));
      if (!series.x.empty()) {
        series.name += is_held_out ? ", held out" : "";
        series.dashed = is_held_out;
        chart.series.push_back(std::move(series));
        colours.push_back(i);
      }
    }
  }
  OrderedJson figure = report::figure(chart);
  for (std::size_t i = 0; i < colours.size(); ++i) {
    figure["series"][i]["colour"] = colours[i];
  }
  return figure;
}

std::vector<Section> run_sections(const std::vector<RunRecord>& runs) {
  return {reached_section(runs), curves_section(runs), settings_section(runs)};
}

}  // namespace darkformer
