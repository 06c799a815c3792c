// The page of an analysis, for the commands that make one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "darkformer/commands/command.h"
#include "darkformer/evaluation/attention_analysis.h"

namespace darkformer {

// Analyses the model of a folder on texts, with progress; Ctrl-C ends it with Interrupted.
struct AnalysisRun {
  std::filesystem::path model;
  std::vector<std::filesystem::path> data;
  std::filesystem::path cache = {};  // of tokenised texts; empty: the default one
  std::int64_t context = 1024;
  AnalysisOptions options;
};
ModelAnalysis run_analysis(const AnalysisRun& run, Decoder& model, const Context& context);

// Writes analysis.json, moments.safetensors, results.json and report.html into a folder, which is
// made where it is missing.
void write_analysis_folder(const std::filesystem::path& folder,
                           const ModelAnalysis& analysis,
                           const AnalysisRun& run,
                           const Context& context);

}  // namespace darkformer
