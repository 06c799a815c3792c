// Training runs as their folders tell them: curves and tables of one or several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/report/results.h"

namespace darkformer {

struct RunRecord {
  std::string name;
  std::filesystem::path log;
  std::vector<Json> lines;                                    // of log.jsonl, one a step
  std::vector<std::pair<std::string, std::string>> settings;  // of run.toml, as typed; may be empty
};

// Error, naming the file: there is no log.jsonl, no step in it, or a broken line. A half-written
// last line is left out. The name is that of the folder.
RunRecord read_run(const std::filesystem::path& folder);

struct Curve {
  std::string title;
  std::string key;            // of a line; of a list the largest number is taken
  std::string held_out = {};  // a second key, for dashed lines
  bool log = false;
  double unit = 1;  // what the numbers are divided by
};

// One line for each run that has the number. More than 1000 steps become that many means, with the
// least and the greatest number of each as a band.
OrderedJson curve_figure(const std::vector<RunRecord>& runs,
                         const Curve& curve,
                         const std::string& note = "");

// All curves that any run has, what each run reached, and their settings.
std::vector<report::Section> run_sections(const std::vector<RunRecord>& runs);

}  // namespace darkformer
