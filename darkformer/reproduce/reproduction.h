// Claims, charts and settings of a reproduction, as the report page wants them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "darkformer/report/results.h"
#include "darkformer/reproduce/claims.h"

namespace darkformer::reproduce {

struct Reproduction {
  const Library& library;
  const Scale& scale;
  const Plan& plan;
  std::vector<std::string> experiments;  // names
  std::vector<Observation> observations;
  std::vector<ClaimResult> claims;
  std::vector<OrderedJson> variance;  // statements of `darkformer variance`
};

// Reads what is finished in the folder and judges it.
Reproduction read_reproduction(const Library& library,
                               const Scale& scale,
                               const Plan& plan,
                               const std::vector<std::string>& experiments,
                               const std::filesystem::path& folder);

// For claims.json: [{experiment, statement, measure, mean, low, high, verdict, terms}, ...].
OrderedJson claims_json(const Reproduction& reproduction);

// Claims on top; of each experiment the paper's statement, curves with bands and its runs. Command
// and settings are the caller's.
report::Results reproduction_results(const Reproduction& reproduction);

}  // namespace darkformer::reproduce
