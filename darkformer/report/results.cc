// Results to JSON, and what a results file must have.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/report/results.h"

#include <cmath>

namespace darkformer::report {
namespace {

constexpr const char* kFormat = "darkformer-results";
constexpr std::int64_t kVersion = 1;

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values) {
    list.push_back(std::isfinite(value) ? OrderedJson(value) : OrderedJson());
  }
  return list;
}

OrderedJson started(const char* type, const std::string& title, const std::string& note) {
  OrderedJson object;
  object["type"] = type, object["title"] = title;
  if (!note.empty()) {
    object["note"] = note;
  }
  return object;
}

OrderedJson axis(const Axis& axis) {
  return {{"label", axis.label}, {"log", axis.log}};
}

void check_figure(const OrderedJson& figure, const std::string& where) {
  require(figure.is_object(), where, ": must be an object");
  const auto type = get_value<std::string>(figure, "type", where);
  get_value<std::string>(figure, "title", where);
  const auto has_list = [&](const char* key) {
    require(figure.contains(key) && figure[key].is_array(), where, ": a figure of type \"", type,
            "\" needs a list \"", key, "\"");
  };
  if (type == "lines") {
    has_list("series");
    require(figure.contains("x") && figure.contains("y"), where, ": needs \"x\" and \"y\"");
  } else if (type == "heat" || type == "table") {
    has_list("rows");
    has_list("columns");
  } else {
    fail(where, ": \"type\" is \"", type, "\"; wanted lines, heat or table");
  }
}

}  // namespace

OrderedJson figure(const LineChart& chart) {
  OrderedJson object = started("lines", chart.title, chart.note);
  object["x"] = axis(chart.x), object["y"] = axis(chart.y);
  object["series"] = OrderedJson::array();
  for (const Series& series : chart.series) {
    OrderedJson line = {{"name", series.name}, {"x", numbers(series.x)}, {"y", numbers(series.y)}};
    if (!series.low.empty()) {
      line["low"] = numbers(series.low), line["high"] = numbers(series.high);
    }
    if (series.dashed) {
      line["dash"] = true;
    }
    object["series"].push_back(line);
  }
  return object;
}

OrderedJson figure(const HeatMap& map) {
  OrderedJson object = started("heat", map.title, map.note);
  object["label"] = map.label, object["rows"] = map.rows, object["columns"] = map.columns;
  object["values"] = OrderedJson::array();
  for (const auto& row : map.values) {
    object["values"].push_back(numbers(row));
  }
  return object;
}

OrderedJson figure(const Table& table) {
  OrderedJson object = started("table", table.title, table.note);
  object["columns"] = table.columns, object["rows"] = table.rows;
  return object;
}

OrderedJson results_json(const Results& results) {
  OrderedJson object = {{"format", kFormat},
                        {"format_version", kVersion},
                        {"kind", results.kind},
                        {"title", results.title},
                        {"summary", results.summary}};
  object["statements"] = OrderedJson::array();
  for (const Statement& s : results.statements) {
    object["statements"].push_back(
        {{"name", s.name}, {"verdict", s.verdict}, {"text", s.text}, {"number", s.number}});
  }
  object["sections"] = OrderedJson::array();
  for (const Section& section : results.sections) {
    OrderedJson part;
    part["title"] = section.title, part["text"] = section.text;
    part["figures"] = section.figures;
    object["sections"].push_back(part);
  }
  object["command"] = results.command, object["settings"] = results.settings;
  return object;
}

void check_results(const OrderedJson& results, const std::string& source) {
  require(results.is_object() && find_value<std::string>(results, "format", source) == kFormat,
          source, ": not a results file of darkformer");
  const auto version = get_value<std::int64_t>(results, "format_version", source);
  require(version <= kVersion, source, ": results of format version ", version,
          "; this program reads up to ", kVersion);
  for (const char* key : {"title", "summary", "command"}) {
    get_value<std::string>(results, key, source);
  }
  require(results.contains("settings") && results["settings"].is_object(), source,
          ": needs an object \"settings\"");
  require(results.contains("sections") && results["sections"].is_array(), source,
          ": needs a list \"sections\"");
  for (const OrderedJson& section : results["sections"]) {
    const auto title = get_value<std::string>(section, "title", source);
    for (const OrderedJson& figure : section.value("figures", OrderedJson::array())) {
      check_figure(figure, concat(source, ": section \"", title, "\""));
    }
  }
}

}  // namespace darkformer::report
