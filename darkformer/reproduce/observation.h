// What came out of a run, as numbers and curves that claims and charts are about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "darkformer/reproduce/plan.h"

namespace darkformer::reproduce {

struct Curve {
  std::vector<double> x, y;
};

// values: "accuracy" and "loss" on the held-out text, "spikes", "skipped", "train_loss@0.25" (mean
// of the tenth of the run that ends at a quarter of it), "anisotropy@1", "time_exponent", ...
struct Observation {
  std::string experiment, group, arm;
  std::int64_t seed = 1;
  std::map<std::string, OrderedJson> grid;
  std::map<std::string, double> values;
  std::map<std::string, Curve> curves;  // over steps
};

// All finished runs of the plan, from the files in `folder`; runs that are not finished are left
// out.
std::vector<Observation> observe(const Plan& plan, const std::filesystem::path& folder);

// The lines of a log.jsonl, of a run of so many steps.
void observe_log(const std::vector<Json>& lines, std::int64_t steps, Observation& observation);

// The rows of `bench attention`: one observation for each length and number of features, and one
// for each number of features with the exponents of time over the two longest lengths.
std::vector<Observation> observe_bench(const OrderedJson& result, const Observation& start);

}  // namespace darkformer::reproduce
