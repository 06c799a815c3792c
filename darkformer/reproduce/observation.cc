// Logs and printed results to numbers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/observation.h"

#include <cmath>

#include "darkformer/base/jsonl.h"
#include "darkformer/reproduce/jobs.h"

namespace darkformer::reproduce {
namespace {

namespace fs = std::filesystem;

constexpr double kShares[] = {0.1, 0.25, 0.5, 1.0};
constexpr int kPoints = 40;  // of a curve

std::string share_name(const std::string& quantity, double share) {
  return concat(quantity, "@", share);
}

// The mean of a key over the lines with first < step <= last; not a number where there are none.
double mean_over(const std::vector<Json>& lines, const char* key, double first, double last) {
  double sum = 0;
  int count = 0;
  for (const Json& line : lines) {
    const auto step = line.value("step", 0.0);
    const auto value = line.find(key);
    if (step > first && step <= last && value != line.end() && value->is_number()) {
      sum += value->get<double>();
      ++count;
    }
  }
  return count > 0 ? sum / count : std::nan("");
}

// Means over stretches whose ends grow by a constant factor: even on a logarithmic axis.
Curve curve_of(const std::vector<Json>& lines, const char* key, std::int64_t steps) {
  Curve curve;
  double first = 0;
  for (int i = 1; i <= kPoints; ++i) {
    const double last = std::round(std::pow(static_cast<double>(steps), i / double(kPoints)));
    if (last > first) {
      curve.x.push_back(last);
      curve.y.push_back(mean_over(lines, key, first, last));
      first = last;
    }
  }
  return curve;
}

void add_numbers(const OrderedJson& object, const std::string& ending, Observation& observation) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) {
      observation.values[key + ending] = value.get<double>();
    }
  }
}

void observe_spectra(const PlannedRun& run, const fs::path& folder, Observation& observation) {
  for (const auto& [share, job] : run.spectra) {
    const OrderedJson result = job_result(folder, job);
    add_numbers(result, share_name("", share), observation);
    for (const auto& [key, value] : result.items()) {
      if (value.is_number()) {
        Curve& curve = observation.curves[key];
        curve.x.push_back(share * static_cast<double>(run.steps));
        curve.y.push_back(value.get<double>());
      }
    }
  }
}

bool is_finished(const PlannedRun& run, const fs::path& folder) {
  const auto there = [&](const std::string& job) { return job.empty() || has_result(folder, job); };
  bool all = there(run.main_job) && there(run.evaluation);
  for (const auto& [share, job] : run.spectra) {
    all = all && there(job);
  }
  return all;
}

double seconds_of(const OrderedJson& row, const char* pass) {
  return row.contains(pass) ? row[pass].value("seconds", std::nan("")) : std::nan("");
}

// log(t2 / t1) / log(T2 / T1) between the two longest rows of these features.
double exponent(const std::vector<OrderedJson>& rows, const char* pass) {
  std::vector<std::pair<double, double>> times;
  for (const OrderedJson& row : rows) {
    if (std::isfinite(seconds_of(row, pass))) {
      times.emplace_back(row.value("length", 0.0), seconds_of(row, pass));
    }
  }
  if (times.size() < 2) {
    return std::nan("");
  }
  const auto [t1, s1] = times[times.size() - 2];
  const auto [t2, s2] = times[times.size() - 1];
  return std::log(s2 / s1) / std::log(t2 / t1);
}

}  // namespace

void observe_log(const std::vector<Json>& lines, std::int64_t steps, Observation& observation) {
  const auto total = static_cast<double>(steps);
  for (const char* key : {"accuracy", "loss"}) {
    for (const double share : kShares) {
      const double last = std::max(1.0, std::round(share * total));
      const double first = std::min(last - 1, std::floor((share - 0.1) * total));
      observation.values[share_name(concat("train_", key), share)] =
          mean_over(lines, key, first, last);
    }
    observation.curves[key] = curve_of(lines, key, steps);
  }
  if (!lines.empty()) {
    observation.values["spikes"] = lines.back().value("spikes", 0.0);
    observation.values["skipped"] = lines.back().value("skipped", 0.0);
  }
}

std::vector<Observation> observe_bench(const OrderedJson& result, const Observation& start) {
  std::map<std::int64_t, std::vector<OrderedJson>> by_features;
  for (const OrderedJson& row : result.value("rows", OrderedJson::array())) {
    by_features[row.value("features", std::int64_t{0})].push_back(row);
  }
  std::vector<Observation> all;
  for (const auto& [features, rows] : by_features) {
    Observation whole = start;
    whole.grid["features"] = features;
    const bool exact = start.arm == "exact";
    const char* forward = exact ? "exact_forward" : "forward";
    const char* both = exact ? "exact_forward_backward" : "forward_backward";
    whole.values["time_exponent"] = exponent(rows, forward);
    whole.values["training_time_exponent"] = exponent(rows, both);
    for (const OrderedJson& row : rows) {
      whole.values["features_win_from"] = row.value("features_win_from", std::nan(""));
      Observation one = start;
      one.grid["features"] = features, one.grid["length"] = row["length"];
      one.values["seconds"] = seconds_of(row, forward);
      one.values["training_seconds"] = seconds_of(row, both);
      all.push_back(one);
    }
    all.push_back(whole);
  }
  return all;
}

std::vector<Observation> observe(const Plan& plan, const fs::path& folder) {
  std::vector<Observation> all;
  for (const PlannedRun& run : plan.runs) {
    if (!is_finished(run, folder)) {
      continue;
    }
    Observation observation{run.experiment, run.group, run.arm, run.seed, run.grid, {}, {}};
    if (run.command == "bench") {
      const auto rows = observe_bench(job_result(folder, run.main_job), observation);
      all.insert(all.end(), rows.begin(), rows.end());
      continue;
    }
    if (!run.folder.empty()) {
      observe_log(read_jsonl(folder / run.folder / "log.jsonl"), run.steps, observation);
      observe_spectra(run, folder, observation);
    } else if (!run.main_job.empty()) {
      add_numbers(job_result(folder, run.main_job), "", observation);
    }
    if (!run.evaluation.empty()) {
      const OrderedJson measured = job_result(folder, run.evaluation);
      observation.values["accuracy"] = measured.value("accuracy", std::nan(""));
      observation.values["loss"] = measured.value("loss", std::nan(""));
    }
    all.push_back(observation);
  }
  return all;
}

}  // namespace darkformer::reproduce
