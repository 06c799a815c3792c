// Analyses on disk: analysis.json for people and programs, moments.safetensors beside it for
// convert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/evaluation/attention_analysis.h"

namespace darkformer {

// Writes folder/analysis.json and folder/moments.safetensors, each atomically; the folder exists.
// `model` is the name that the file gives the model.
void write_analysis(const std::filesystem::path& folder,
                    const ModelAnalysis& analysis,
                    const std::string& model);
OrderedJson analysis_json(const ModelAnalysis& analysis, const std::string& model);

// What a conversion takes from an analysis.
struct AnalysisAdvice {
  std::string file;  // its name, for messages
  struct Layer {
    LayerAdvice advice;
    std::vector<LayerOption> options;  // none: it is to stay exact
    AttentionReach reach;
  };
  std::vector<std::int64_t> windows, sinks;  // the widths of every reach

  // The attention of each head of a layer that falls on this window and these sinks, between the
  // widths that were measured; none where no width was.
  std::vector<double> near_mass(std::size_t layer, const AttentionSpec& spec) const;

  std::vector<Layer> layers;
  std::vector<std::shared_ptr<LayerMoments>> moments;
};

// From analysis.json, or the folder that holds it. Error, naming the file and what is wrong: not an
// analysis, of a newer version, of another model (by fingerprint), moments that are missing, cut
// short or of another analysis.
AnalysisAdvice read_analysis(const std::filesystem::path& file, const Decoder& model);

}  // namespace darkformer
