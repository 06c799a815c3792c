// The parts of `darkformer variance`, one file each; every part adds its statements and sections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <iomanip>
#include <string>

#include "darkformer/base/error.h"
#include "darkformer/report/results.h"

namespace darkformer {

struct VarianceRun {  // NOLINT(bugprone-exception-escape): moving JSON does not throw
  std::uint64_t seed = 1;
  std::function<void()> tick;  // called kTicks times by each part; may throw to stop
  report::Results results = {};

  static constexpr int kTicks = 8, kParts = 4;

  void state(const std::string& name, bool holds, const std::string& text, std::string number) {
    results.statements.push_back({name, holds ? "holds" : "fails", text, std::move(number)});
  }
  void caveat(const std::string& name, const std::string& text, std::string number) {
    results.statements.push_back({name, "caveat", text, std::move(number)});
  }
};

// "0.0123": four digits.
inline std::string digits(double value) {
  return concat(std::setprecision(4), value);
}

void add_unbiasedness(VarianceRun& run);  // Lemma 2.1, Eq. 4, Prop. 4.1; the sign fix
void add_optimality(VarianceRun& run);    // Lemma 3.1, Theorem 3.2, whitening, Prop. 4.1
void add_measured_variance(
    VarianceRun& run);              // predicted against measured; trigonometric; orthogonal
void add_errors(VarianceRun& run);  // kernel and attention error against F

}  // namespace darkformer
