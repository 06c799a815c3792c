// Analyses to JSON and tensors, and back what a conversion needs.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/analysis_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "darkformer/base/checksum.h"
#include "darkformer/base/count_text.h"
#include "darkformer/checkpoint/safetensors.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/model/attention_spec_json.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "darkformer-analysis";
constexpr std::int64_t kVersion = 1;
constexpr const char* kMoments = "moments.safetensors";

OrderedJson number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson();
}

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values) {
    list.push_back(number(value));
  }
  return list;
}

OrderedJson lists(const std::vector<std::vector<double>>& values) {
  OrderedJson list = OrderedJson::array();
  for (const std::vector<double>& row : values) {
    list.push_back(numbers(row));
  }
  return list;
}

OrderedJson json_of(const std::vector<estimators::Anisotropy>& inputs) {
  OrderedJson list = OrderedJson::array();
  for (const estimators::Anisotropy& input : inputs) {
    OrderedJson object;
    object["mean_size"] = number(input.mean_size), object["size"] = number(input.size);
    object["effective_rank"] = number(input.effective_rank);
    object["condition"] = number(input.condition);
    object["spectrum"] = numbers(input.spectrum);
    list.push_back(object);
  }
  return list;
}

OrderedJson json_of(const HeadEstimate& head, bool measured) {
  OrderedJson object;
  object["expected_log_second_moment"] = number(head.expected_log_moment);
  object["log_second_moment"] = number(head.log_moment);
  object["sample_size"] = number(head.sample_size);
  if (measured) {
    object["features_needed"] = number(head.features_needed);
    object["predicted"] = numbers(head.predicted), object["measured"] = numbers(head.measured);
  }
  return object;
}

OrderedJson json_of(const EstimatorAnalysis& estimator) {
  OrderedJson object;
  object["name"] = estimator.name, object["measured"] = estimator.measured;
  if (estimator.measured) {
    object["errors"] = numbers(estimator.errors);
  }
  object["heads"] = OrderedJson::array();
  for (const HeadEstimate& head : estimator.heads) {
    object["heads"].push_back(json_of(head, estimator.measured));
  }
  return object;
}

OrderedJson json_of(const LayerAdvice& advice) {
  OrderedJson object;
  object["attention"] = attention_spec_json(advice.spec);
  object["error"] = number(advice.error), object["zero_shot"] = advice.zero_shot;
  object["reason"] = advice.reason;
  return object;
}

OrderedJson json_of(const LayerAnalysis& layer) {
  OrderedJson object;
  object["layer"] = layer.layer, object["sliding_window"] = layer.sliding_window;
  object["advice"] = json_of(layer.advice);
  object["options"] = OrderedJson::array();
  for (const LayerOption& option : layer.options) {
    OrderedJson entry;
    entry["attention"] = attention_spec_json(option.spec), entry["error"] = number(option.error);
    object["options"].push_back(entry);
  }
  object["mass_in_windows"] = lists(layer.reach.windows);
  object["mass_on_sinks"] = lists(layer.reach.sinks);
  object["constant_error"] = number(layer.constant_error);
  object["constant_errors"] = numbers(layer.constant);
  object["queries"] = json_of(layer.queries), object["keys"] = json_of(layer.keys);
  object["inputs"] = json_of(layer.inputs);
  object["estimators"] = OrderedJson::array();
  for (const EstimatorAnalysis& estimator : layer.estimators) {
    object["estimators"].push_back(json_of(estimator));
  }
  return object;
}

struct Part {
  const char* name;
  at::Tensor LayerMoments::Sums::*tensor;
};
constexpr Part kParts[] = {{"query_sum", &LayerMoments::Sums::queries},
                           {"query_products", &LayerMoments::Sums::query_products},
                           {"key_sum", &LayerMoments::Sums::keys},
                           {"key_products", &LayerMoments::Sums::key_products}};

std::string tensor_name(std::size_t layer, const char* part) {
  return concat("layers.", layer, ".", part);
}

void write_moments(const fs::path& file, const ModelAnalysis& analysis) {
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < analysis.moments.size(); ++i) {
    const LayerMoments::Sums sums = analysis.moments[i]->sums();
    for (const Part& part : kParts) {
      tensors.push_back(source_of(tensor_name(i, part.name), sums.*part.tensor));
    }
  }
  write_safetensors(file, std::move(tensors),
                    {{"format", kFormat},
                     {"fingerprint", analysis.fingerprint},
                     {"tokens", std::to_string(analysis.fitted_tokens)}});
}

// Every double of the file must be one: a damaged file is not to become a damaged model.
LayerMoments read_layer(const SafetensorsFile& file,
                        std::size_t layer,
                        std::int64_t tokens,
                        const ModelConfig& config) {
  const std::string name = file.path().string();
  const auto index = static_cast<std::int64_t>(layer);
  LayerMoments::Sums sums;
  for (const Part& part : kParts) {
    const TensorView* view = file.find(tensor_name(layer, part.name));
    require(view != nullptr, name, ": tensor '", tensor_name(layer, part.name), "' is missing");
    sums.*part.tensor = copied_tensor(*view);
    require((sums.*part.tensor).isfinite().all().item<bool>(), name, ": tensor '", view->name,
            "' has numbers that are not finite");
  }
  try {
    // The queries of all layers that share the keys were added up.
    LayerMoments moments(tokens * key_group_size(config, index), sums);
    require(sums.queries.size(0) == config.heads &&
                sums.keys.size(0) == config.kv_heads_of(index) &&
                sums.keys.size(1) == config.head_dim_of(index),
            "moments: sums of heads that the model does not have");
    return moments;
  } catch (const Error& error) {
    fail(name, ": layer ", layer, ": ", error.what());
  }
}

std::vector<std::shared_ptr<LayerMoments>> read_moments(const fs::path& path,
                                                        const std::string& fingerprint,
                                                        std::int64_t tokens,
                                                        const ModelConfig& config) {
  const SafetensorsFile file(path);
  const auto entry = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  require(entry("fingerprint") == fingerprint && entry("tokens") == std::to_string(tokens),
          path.string(), ": belongs to another analysis than the file beside it; analyze again");
  std::vector<std::shared_ptr<LayerMoments>> moments;
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.layers); ++i) {
    moments.push_back(std::make_shared<LayerMoments>(read_layer(file, i, tokens, config)));
  }
  return moments;
}

AttentionSpec read_spec(const OrderedJson& object,
                        std::int64_t head_dim,
                        const std::string& where) {
  require(object.contains("attention"), where, ": needs \"attention\"");
  return read_attention_spec(object["attention"], head_dim, where);
}

// (heads, widths), or nothing for a layer that was not analyzed; null where a width was too long
// for the text.
std::vector<std::vector<double>> read_lists(const OrderedJson& object,
                                            const char* key,
                                            std::size_t heads,
                                            std::size_t widths,
                                            const std::string& where) {
  const OrderedJson lists = object.value(key, OrderedJson::array());
  const auto is_list = [&](const OrderedJson& list) {
    return list.is_array() && list.size() == widths &&
           std::all_of(list.begin(), list.end(), [](const OrderedJson& value) {
             return value.is_null() ||
                    (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1.001);
           });
  };
  require(lists.is_array() && (lists.empty() || lists.size() == heads) &&
              std::all_of(lists.begin(), lists.end(), is_list),
          where, ": \"", key, "\" is not ", count_text(heads, "list"), " of ",
          count_text(widths, "share"));
  std::vector<std::vector<double>> read;
  for (const OrderedJson& list : lists) {
    read.emplace_back();
    for (const OrderedJson& value : list) {
      read.back().push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                            : value.get<double>());
    }
  }
  return read;
}

// At a width between those that were measured, by its logarithm; at the nearest one beyond them.
std::optional<double> share_at(const std::vector<double>& shares,
                               const std::vector<std::int64_t>& widths,
                               std::int64_t width) {
  std::optional<double> below, above;
  double low = 0, high = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {  // ascending
    if (std::isnan(shares[i])) {
      continue;
    }
    if (widths[i] <= width) {
      below = shares[i], low = static_cast<double>(widths[i]);
    } else if (!above) {
      above = shares[i], high = static_cast<double>(widths[i]);
    }
  }
  if (!below || !above) {
    return below ? below : above;
  }
  const double part = std::log(static_cast<double>(width) / low) / std::log(high / low);
  return *below + part * (*above - *below);
}

AnalysisAdvice::Layer read_advice(const OrderedJson& object,
                                  std::int64_t head_dim,
                                  const std::string& where) {
  require(object.contains("advice") && object["advice"].is_object(), where,
          ": needs an object \"advice\"");
  const OrderedJson& advice = object["advice"];
  const auto error_of = [&](const OrderedJson& from) {
    const auto error = get_value<double>(from, "error", where);
    require(error >= 0, where, ": \"error\" is below 0: ", error);
    return error;
  };
  AnalysisAdvice::Layer layer;
  layer.advice = {read_spec(advice, head_dim, where), error_of(advice),
                  get_value<bool>(advice, "zero_shot", where),
                  get_value<std::string>(advice, "reason", where)};
  for (const OrderedJson& option : object.value("options", OrderedJson::array())) {
    layer.options.push_back({read_spec(option, head_dim, where), error_of(option)});
  }
  return layer;
}

}  // namespace

OrderedJson analysis_json(const ModelAnalysis& analysis, const std::string& model) {
  OrderedJson object;
  object["format"] = kFormat, object["format_version"] = kVersion;
  object["model"] = model, object["fingerprint"] = analysis.fingerprint;
  object["verdict"] = analysis.verdict(), object["zero_shot"] = analysis.zero_shot();
  object["target"] = analysis.target, object["context"] = analysis.context;
  object["fitted_tokens"] = analysis.fitted_tokens;
  object["held_out_tokens"] = analysis.held_out_tokens, object["draws"] = analysis.draws;
  object["features"] = analysis.features, object["windows"] = analysis.windows;
  object["sinks"] = analysis.sinks;
  object["rank_correlations"] = OrderedJson::array();
  for (const Correlation& c : analysis.correlations) {
    OrderedJson entry;
    entry["features"] = c.features, entry["predicted"] = number(c.predicted);
    entry["moments"] = number(c.moments);
    object["rank_correlations"].push_back(entry);
  }
  object["layers"] = OrderedJson::array();
  for (const LayerAnalysis& layer : analysis.layers) {
    object["layers"].push_back(json_of(layer));
  }
  return object;
}

void write_analysis(const fs::path& folder,
                    const ModelAnalysis& analysis,
                    const std::string& model) {
  write_moments(folder / kMoments, analysis);
  write_json(folder / "analysis.json", analysis_json(analysis, model));
}

std::vector<double> AnalysisAdvice::near_mass(std::size_t layer, const AttentionSpec& spec) const {
  const AttentionReach& reach = layers[layer].reach;
  std::vector<double> masses;
  for (std::size_t h = 0; h < reach.windows.size(); ++h) {
    const auto near = share_at(reach.windows[h], windows, spec.window);
    if (!near) {
      return {};
    }
    const auto first = spec.sinks > 0 ? share_at(reach.sinks[h], sinks, spec.sinks) : std::nullopt;
    masses.push_back(std::min(1.0, *near + first.value_or(0.0)));
  }
  return masses;
}

AnalysisAdvice read_analysis(const fs::path& file, const Decoder& model) {
  const fs::path path = fs::is_directory(file) ? file / "analysis.json" : file;
  const OrderedJson object = read_ordered_json(path);
  const std::string name = path.string();
  require(object.is_object() && find_value<std::string>(object, "format", name) == kFormat, name,
          ": not an analysis of darkformer");
  const auto version = get_value<std::int64_t>(object, "format_version", name);
  require(version == kVersion, name, ": its format_version is ", version, ", this program reads ",
          kVersion);
  const auto got = get_value<std::string>(object, "fingerprint", name);
  const std::string wanted = to_hex(fingerprint(model));
  require(got == wanted, name, ": an analysis of another model (fingerprint ", got,
          ", this one has ", wanted, "); analyze this one");
  const ModelConfig& config = model.config();
  require(object.contains("layers") && object["layers"].is_array() &&
              object["layers"].size() == static_cast<std::size_t>(config.layers),
          name, ": needs a list \"layers\" of ", config.layers);
  AnalysisAdvice advice;
  advice.file = name;
  advice.windows = get_value<std::vector<std::int64_t>>(object, "windows", name);
  advice.sinks = get_value<std::vector<std::int64_t>>(object, "sinks", name);
  const auto heads = static_cast<std::size_t>(config.heads);
  for (const OrderedJson& layer : object["layers"]) {
    const std::string where = concat(name, ": layer ", advice.layers.size());
    const auto index = get_value<std::int64_t>(layer, "layer", where);
    require(index == static_cast<std::int64_t>(advice.layers.size()), where,
            ": stands in the place of layer ", index);
    advice.layers.push_back(read_advice(layer, config.head_dim_of(index), where));
    advice.layers.back().reach = {
        read_lists(layer, "mass_in_windows", heads, advice.windows.size(), where),
        read_lists(layer, "mass_on_sinks", heads, advice.sinks.size(), where)};
  }
  advice.moments = read_moments(path.parent_path() / kMoments, wanted,
                                get_value<std::int64_t>(object, "fitted_tokens", name), config);
  return advice;
}

}  // namespace darkformer
