// An analysis as the page that people read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/evaluation/attention_analysis.h"
#include "darkformer/report/results.h"

namespace darkformer {

// Statements, heat maps (layer by head), spectra and tables; command and settings are left empty.
report::Results analysis_results(const ModelAnalysis& analysis, const std::string& model);

}  // namespace darkformer
