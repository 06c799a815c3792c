// Checks of numbers by the names that config.json gives them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {

// Error: `where`, the name, what it is and what was wanted, in one line.
class FieldChecks {
 public:
  explicit FieldChecks(std::string where) : where_(std::move(where)) {}

  void within(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) const {
    require(value >= least && value <= most, where_, ": \"", field, "\" is ", value, "; wanted ",
            least, " to ", most);
  }
  void positive(const char* field, double value) const {
    require(std::isfinite(value) && value > 0, where_, ": \"", field, "\" is ", value,
            "; wanted a number above 0");
  }
  void zero_or_positive(const char* field, double value) const {
    require(std::isfinite(value) && value >= 0, where_, ": \"", field, "\" is ", value,
            "; wanted 0 or more");
  }

 private:
  const std::string where_;
};

}  // namespace darkformer
