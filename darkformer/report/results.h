// Results files: what commands write and the report page reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/base/json.h"

namespace darkformer::report {

// One line of a chart; low and high, where given, are a band around y. Values that are not finite
// become null and are left out of the chart.
struct Series {
  std::string name;
  std::vector<double> x, y, low = {}, high = {};
  bool dashed = false;
};

struct Axis {
  std::string label;
  bool log = false;
};

struct LineChart {
  std::string title, note;
  Axis x, y;
  std::vector<Series> series;
};

struct HeatMap {
  std::string title, note, label;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // (rows,columns)
};

struct Table {
  std::string title, note;
  std::vector<std::string> columns;
  std::vector<std::vector<OrderedJson>> rows;  // texts and numbers
};

OrderedJson figure(const LineChart& chart);
OrderedJson figure(const HeatMap& map);
OrderedJson figure(const Table& table);

struct Section {
  std::string title;
  std::vector<std::string> text;  // paragraphs
  std::vector<OrderedJson> figures;
};

// "holds", "caveat", "fails" or "undecided", in words, with its number.
struct Statement {
  std::string name, verdict, text, number;
};

struct Results {  // NOLINT(bugprone-exception-escape): moving JSON does not throw
  std::string kind, title, summary;
  std::vector<Statement> statements;
  std::vector<Section> sections;
  std::string command;   // as typed
  OrderedJson settings;  // name -> value
};

OrderedJson results_json(const Results& results);

// Error naming `source` and the key unless the object is a results file of a version we know.
void check_results(const OrderedJson& results, const std::string& source);

}  // namespace darkformer::report
