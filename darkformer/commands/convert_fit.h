// The fit of a conversion: its text, its progress, its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "darkformer/commands/convert_options.h"
#include "darkformer/conversion/fit_store.h"
#include "darkformer/conversion/model_fit.h"
#include "darkformer/report/results.h"

namespace darkformer {

class Decoder;

// Gives a layer its new attention, from what it reads.
using LayerConversion = std::function<void(std::int64_t layer, const RowExamples& examples)>;

// The fit of each of the layers that were converted.
struct ConversionFit {
  std::vector<std::int64_t> layers;
  std::vector<RowFit> fits;  // of these

  double before() const;  // mean row KL of all heads
  double after() const;
};

// Converts `layers` one by one and fits them. What is fitted is kept beside --out until finish_fit:
// the same command goes on with it.
ConversionFit fit_layers(const ConvertOptions& options,
                         const std::vector<std::int64_t>& layers,
                         Decoder& model,
                         const LayerConversion& convert,
                         const Context& context);

// The model is written: the page of --fit-report, and nothing kept any more.
void finish_fit(const ConvertOptions& options, const ConversionFit& fit, const Context& context);

// {"row_kl_before", "row_kl_after", "layers": [{"layer", "before": [..], "after": [..]}]}
OrderedJson fit_json(const ConversionFit& fit);
// The same, drawn: a map of the heads after the fit, and one before.
report::Section fit_section(const OrderedJson& fit);

}  // namespace darkformer
