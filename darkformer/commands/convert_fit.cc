// From options and text to fitted layers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/convert_fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

#include "darkformer/base/checksum.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/decoder.h"
#include "darkformer/report/page.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHeldOut = 10;  // one window of so many is only measured on

// (W,T): whole windows, spread evenly over the text.
at::Tensor fit_windows(const ConvertOptions& o, const Decoder& model, const Context& context) {
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const Shards shards = open_data(o.data, o.cache.value_or(fs::path()), tokenizer, context);
  std::int64_t length = std::min({o.fit_context, model.config().max_positions, o.fit_tokens / 2});
  length = std::min(length, EvaluationWindows(shards, length).tokens() / 2);
  require(length >= 2, "--fit: the text has ", EvaluationWindows(shards, 1).tokens(),
          " tokens; wanted 4 at least, two windows of 2, to fit to (a good fit wants thousands)");
  const EvaluationWindows windows(shards, length);
  const std::int64_t count = std::clamp<std::int64_t>(o.fit_tokens / length, 2, windows.whole());
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(tensors_of(windows.read_batch(i * windows.whole() / count, 1)).inputs);
  }
  return at::cat(rows);
}

std::vector<FitPart> fit_parts(const ConvertOptions& o) {
  std::vector<FitPart> parts;
  const auto add = [&](const char* word, FitPart part) {
    if (fits_part(o, word)) {
      parts.push_back(part);
    }
  };
  add("factor", FitPart::kFactor);
  add("key-factor", FitPart::kKeyFactor);
  add("draws", FitPart::kDraws);
  add("centres", FitPart::kCentres);
  add("gate", FitPart::kGate);
  return parts;
}

fs::path kept_place(const ConvertOptions& o) {
  const fs::path out = fs::absolute(o.out).lexically_normal();
  const fs::path whole = out.has_filename() ? out : out.parent_path();
  return whole.parent_path() / concat(".", whole.filename().string(), ".fit");
}

// All that decides the fits: the model, the text, the options.
std::uint64_t fit_key(const Decoder& model, const at::Tensor& ids, const Context& context) {
  KeyBuilder key;
  key.add(fingerprint(model));
  key.add(checksum(ids.data_ptr(), ids.nbytes()));
  for (const Field& field : context.fields) {
    if (field.name != "out" && field.name != "cache" && field.name != "fit-report") {
      key.add(field.name).add(field.default_text());
    }
  }
  return key.add(static_cast<std::uint64_t>(context.common.seed)).value();
}

double mean_of(const std::vector<RowFit>& fits, std::vector<double> RowFit::*which) {
  double sum = 0.0;
  std::size_t heads = 0;
  for (const RowFit& fit : fits) {
    for (const double value : fit.*which) {
      sum += value;
      ++heads;
    }
  }
  return heads == 0 ? 0.0 : sum / static_cast<double>(heads);
}

// Of what fit_json made; `when`: "before" or "after".
report::HeatMap heat_map(const OrderedJson& fit, const std::string& title, const char* when) {
  report::HeatMap map{title, "KL of the rows of attention weights, held-out text", "layer", {}, {},
                      {}};
  for (const OrderedJson& layer : fit["layers"]) {
    map.rows.push_back(layer["layer"].dump());
    map.values.push_back(layer[when].get<std::vector<double>>());
    while (map.columns.size() < map.values.back().size()) {
      map.columns.push_back(concat("head ", map.columns.size()));
    }
  }
  return map;
}

report::Results fit_results(const ConversionFit& fit, const ConvertOptions& o) {
  report::Results results;
  results.kind = "fit";
  results.title = concat("Fit of ", o.model.string());
  results.summary = concat(
      "Each converted head was fitted to the exact attention of the same "
      "queries and keys. Mean row KL: ",
      fit.before(), " before, ", fit.after(), " after.");
  results.sections.push_back(fit_section(fit_json(fit)));
  return results;
}

}  // namespace

double ConversionFit::before() const {
  return mean_of(fits, &RowFit::before);
}

double ConversionFit::after() const {
  return mean_of(fits, &RowFit::after);
}

ConversionFit fit_layers(const ConvertOptions& o,
                         const std::vector<std::int64_t>& layers,
                         Decoder& model,
                         const LayerConversion& convert,
                         const Context& context) {
  const at::Tensor ids = fit_windows(o, model, context);
  const FitStore store(kept_place(o), fit_key(model, ids, context));
  if (store.layers() > 0) {
    log_info("goes on with ", count_text(store.layers(), "layer"), " that an earlier call fitted");
  }
  ModelFitOptions options;
  options.rows.parts = fit_parts(o);
  options.rows.steps = o.fit_steps;
  options.held = std::max<std::int64_t>(1, ids.size(0) / kHeldOut);
  options.store = &store;
  std::int64_t groups = 0;
  for (const std::int64_t layer : layers) {
    groups += o.placement == "layer" ? 1 : model.config().kv_heads_of(layer);
  }
  Progress progress = context.progress("fitting", groups * o.fit_steps, "steps");
  std::mutex mutex;
  const auto advance = [&](std::int64_t steps) {
    const std::lock_guard lock(mutex);
    context.stop_if_interrupted(
        "stopped; the same command goes on with the layers that are fitted");
    progress.advance(steps);
  };
  return {layers, fit_model(model, ids, layers, options, {convert, advance})};
}

void finish_fit(const ConvertOptions& o, const ConversionFit& fit, const Context& context) {
  FitStore(kept_place(o), 0).remove();
  if (!o.fit_report) {
    return;
  }
  fs::create_directories(*o.fit_report);
  report::Results results = fit_results(fit, o);
  results.command = context.command_line();
  results.settings = context.settings();
  write_json(*o.fit_report / "results.json", report::results_json(results));
  report::write_report(*o.fit_report / "results.json", *o.fit_report / "report.html");
}

OrderedJson fit_json(const ConversionFit& fit) {
  OrderedJson object;
  object["row_kl_before"] = fit.before(), object["row_kl_after"] = fit.after();
  object["layers"] = OrderedJson::array();
  for (std::size_t i = 0; i < fit.fits.size(); ++i) {
    object["layers"].push_back(
        {{"layer", fit.layers[i]}, {"before", fit.fits[i].before}, {"after", fit.fits[i].after}});
  }
  return object;
}

report::Section fit_section(const OrderedJson& fit) {
  return {"How far each head is from exact attention",
          {},
          {report::figure(heat_map(fit, "After the fit", "after")),
           report::figure(heat_map(fit, "Before the fit", "before"))}};
}

}  // namespace darkformer
