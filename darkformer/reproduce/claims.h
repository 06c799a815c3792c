// Does a statement of the paper hold in what was measured?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/reproduce/observation.h"

namespace darkformer::reproduce {

enum class Verdict { kHolds, kDoesNotHold, kUndecided, kNotMeasured };

// A mean with its 95 % interval by Student's t; one value has none (low and high are NaN).
struct Interval {
  double mean = 0, low = 0, high = 0;
  std::size_t values = 0;
};
Interval interval_of(const std::vector<double>& values);

struct TermResult {
  std::string run, quantity;
  Interval interval;
};

struct ClaimResult {
  std::string experiment;
  Claim claim;
  std::vector<double> values;  // one for each seed (and grid value, where the claim samples those)
  Interval interval;
  std::vector<TermResult> terms;  // each on its own
  Verdict verdict = Verdict::kNotMeasured;
};

// Holds: the whole interval is above the claim's bound; does not hold: all of it is at or below;
// else undecided, as it is with a single value. Values are paired: terms of one seed make one
// value, so what seeds share does not widen the interval.
ClaimResult evaluate_claim(const std::string& experiment,
                           const Claim& claim,
                           const std::vector<Observation>& observations);

std::string verdict_text(Verdict verdict);  // "holds", "does not hold", "undecided at this scale"
std::string interval_text(const Interval& interval);  // "0.034 [0.031, 0.037]"

// Has every pair of the given grid?
bool has_grid(const std::map<std::string, OrderedJson>& grid,
              const std::vector<std::pair<std::string, OrderedJson>>& wanted);

OrderedJson claim_json(const ClaimResult& result);

}  // namespace darkformer::reproduce
