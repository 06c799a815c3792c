// Paired sums over seeds, and what their interval says.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/claims.h"

#include <cmath>
#include <iomanip>
#include <set>

#include "darkformer/estimators/confidence.h"

namespace darkformer::reproduce {
namespace {

// What a value of the sample stands for: a seed, and the value of the grid option sampled over.
using Unit = std::pair<std::int64_t, std::string>;

Unit unit_of(const Observation& observation, const std::string& sample) {
  const auto found = observation.grid.find(sample);
  return {observation.seed, found == observation.grid.end() ? "" : found->second.dump()};
}

bool is_of(const Observation& observation, const RunSelector& runs) {
  return observation.experiment == runs.experiment && observation.group == runs.group &&
         observation.arm == runs.arm && has_grid(observation.grid, runs.grid);
}

// The means of a term by unit.
std::map<Unit, double> term_values(const std::string& experiment,
                                   const Claim& claim,
                                   const Term& term,
                                   const std::vector<Observation>& observations) {
  std::map<Unit, std::pair<double, int>> sums;
  RunSelector runs = parse_selector(term.run, experiment);
  if (runs.grid.empty() && runs.experiment == experiment) {
    runs.grid = claim.where;
  }
  for (const Observation& observation : observations) {
    const auto value = observation.values.find(term.quantity);
    if (is_of(observation, runs) && value != observation.values.end() &&
        std::isfinite(value->second)) {
      auto& [sum, count] = sums[unit_of(observation, claim.sample)];
      sum += value->second;
      ++count;
    }
  }
  std::map<Unit, double> means;
  for (const auto& [unit, sum] : sums) {
    means[unit] = sum.first / sum.second;
  }
  return means;
}

// The weighted sum by unit, where every term has one.
std::map<Unit, double> sum_of(const std::string& experiment,
                              const Claim& claim,
                              const std::vector<Term>& terms,
                              const std::vector<Observation>& observations) {
  std::map<Unit, double> sums;
  std::map<Unit, std::size_t> counts;
  for (const Term& term : terms) {
    for (const auto& [unit, value] : term_values(experiment, claim, term, observations)) {
      sums[unit] += term.weight * value;
      ++counts[unit];
    }
  }
  for (const auto& [unit, count] : counts) {
    if (count != terms.size()) {
      sums.erase(unit);
    }
  }
  return sums;
}

Verdict judge(const Interval& interval, double above) {
  if (interval.values == 0) {
    return Verdict::kNotMeasured;
  }
  if (interval.values == 1) {
    return Verdict::kUndecided;
  }
  return interval.low > above    ? Verdict::kHolds
         : interval.high < above ? Verdict::kDoesNotHold
                                 : Verdict::kUndecided;
}

OrderedJson interval_json(const Interval& interval) {
  return {{"mean", interval.mean},
          {"low", interval.low},
          {"high", interval.high},
          {"values", interval.values}};
}

}  // namespace

Interval interval_of(const std::vector<double>& values) {
  const double nothing = std::nan("");
  if (values.empty()) {
    return {nothing, nothing, nothing, 0};
  }
  if (values.size() == 1) {
    return {values[0], nothing, nothing, 1};
  }
  const estimators::Measured measured = estimators::measure(values);
  const double half = estimators::student_deviations(values.size() - 1) * measured.error;
  return {measured.mean, measured.mean - half, measured.mean + half, values.size()};
}

ClaimResult evaluate_claim(const std::string& experiment,
                           const Claim& claim,
                           const std::vector<Observation>& observations) {
  ClaimResult result{experiment, claim, {}, {}, {}, Verdict::kNotMeasured};
  const auto sums = sum_of(experiment, claim, claim.terms, observations);
  const auto over = sum_of(experiment, claim, claim.over, observations);
  for (const auto& [unit, sum] : sums) {
    if (claim.over.empty()) {
      result.values.push_back(sum);
    } else if (const auto found = over.find(unit); found != over.end() && found->second != 0) {
      result.values.push_back(sum / found->second);
    }
  }
  result.interval = interval_of(result.values);
  result.verdict = judge(result.interval, claim.above);
  std::vector<Term> terms = claim.terms;
  terms.insert(terms.end(), claim.over.begin(), claim.over.end());
  std::set<std::pair<std::string, std::string>> seen;
  for (const Term& term : terms) {
    if (seen.insert({term.run, term.quantity}).second) {
      std::vector<double> values;
      for (const auto& [unit, value] : term_values(experiment, claim, term, observations)) {
        values.push_back(value);
      }
      result.terms.push_back({term.run, term.quantity, interval_of(values)});
    }
  }
  return result;
}

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kUndecided:
      return "undecided at this scale";
    case Verdict::kNotMeasured:
      break;
  }
  return "not measured";
}

std::string interval_text(const Interval& interval) {
  if (interval.values == 0) {
    return "–";
  }
  std::string text = concat(std::setprecision(3), interval.mean);
  if (interval.values > 1) {
    text += concat(std::setprecision(3), " [", interval.low, ", ", interval.high, "]");
  }
  return text;
}

bool has_grid(const std::map<std::string, OrderedJson>& grid,
              const std::vector<std::pair<std::string, OrderedJson>>& wanted) {
  for (const auto& [name, value] : wanted) {
    const auto found = grid.find(name);
    if (found == grid.end() || found->second != value) {
      return false;
    }
  }
  return true;
}

OrderedJson claim_json(const ClaimResult& result) {
  OrderedJson object;
  object["experiment"] = result.experiment;
  object["name"] = result.claim.name;
  object["statement"] = result.claim.statement;
  object["measure"] = result.claim.measure;
  object["above"] = result.claim.above;
  object["mean"] = result.interval.mean;
  object["low"] = result.interval.low;
  object["high"] = result.interval.high;
  object["values"] = result.values;
  object["verdict"] = verdict_text(result.verdict);
  object["terms"] = OrderedJson::array();
  for (const TermResult& term : result.terms) {
    OrderedJson part = {{"run", term.run}, {"quantity", term.quantity}};
    part.update(interval_json(term.interval));
    object["terms"].push_back(part);
  }
  return object;
}

}  // namespace darkformer::reproduce
