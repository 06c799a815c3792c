// The sections of an analysis' page.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/analyze_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

using report::Section;
using report::Series;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kGoodCorrelation = 0.8;

std::string rounded(double value) {
  return concat(std::round(1000.0 * value) / 1000.0);
}

// Layer by head; `of` gives one row's values.
report::HeatMap heat_map(const std::string& title,
                         const std::string& note,
                         const ModelAnalysis& analysis,
                         const std::function<std::vector<double>(const LayerAnalysis&)>& of) {
  report::HeatMap map{title, note, "layer", {}, {}, {}};
  for (const LayerAnalysis& layer : analysis.layers) {
    map.rows.push_back(std::to_string(layer.layer));
    map.values.push_back(of(layer));
    while (map.columns.size() < map.values.back().size()) {
      map.columns.push_back(concat("head ", map.columns.size()));
    }
  }
  for (std::vector<double>& row : map.values) {
    row.resize(map.columns.size(), kNone);
  }
  return map;
}

using OfInput = std::function<double(const estimators::Anisotropy&)>;

std::vector<double> each(const std::vector<estimators::Anisotropy>& inputs, const OfInput& of) {
  std::vector<double> values;
  for (const estimators::Anisotropy& input : inputs) {
    values.push_back(of(input));
  }
  return values;
}

// The best of the measured estimators in each head, by `of`.
std::vector<double> best(const LayerAnalysis& layer,
                         const std::function<double(const HeadEstimate&)>& of) {
  std::vector<double> values;
  for (std::size_t h = 0; h < layer.queries.size(); ++h) {
    double least = std::numeric_limits<double>::infinity();
    for (const EstimatorAnalysis& estimator : layer.estimators) {
      if (estimator.measured) {
        least = std::min(least, of(estimator.heads[h]));
      }
    }
    values.push_back(least);
  }
  return values;
}

std::string spec_words(const AttentionSpec& spec) {
  if (spec.kind == AttentionKind::kExact) {
    return "keep exact";
  }
  std::string text = concat(attention_kind_name(spec.kind), ", F ", spec.features);
  text += spec.centre ? ", centred" : "";
  text += spec.window > 0 ? concat(", window ", spec.window) : "";
  return text + (spec.sinks > 0 ? concat(", sinks ", spec.sinks) : "");
}

Section advice_section(const ModelAnalysis& analysis) {
  report::Table table{"What to convert each layer to",
                      "Error: of the layer's attention output on held-out tokens, relative, before "
                      "any training. Mean of values: the error of attention that knows nothing.",
                      {"layer", "advice", "error", "mean of values", "why"},
                      {}};
  for (const LayerAnalysis& layer : analysis.layers) {
    table.rows.push_back(
        {layer.layer, spec_words(layer.advice.spec), layer.advice.error,
         std::isfinite(layer.constant_error) ? OrderedJson(layer.constant_error) : OrderedJson(),
         layer.advice.reason});
  }
  return {"Advice", {analysis.verdict()}, {report::figure(table)}};
}

Section error_section(const ModelAnalysis& analysis) {
  Section section{"Errors of the attention's output",
                  {"Measured on held-out tokens with drawn features; predicted before anything is "
                   "drawn, from the same tokens' queries, keys and values."},
                  {}};
  const std::size_t middle = analysis.features.size() / 2;
  const std::string error =
      concat("error of the best estimator, ", count_text(analysis.features[middle], "feature"));
  const auto add_best = [&](const std::string& title, const std::string& note, const auto& of) {
    section.figures.push_back(report::figure(heat_map(
        title, note, analysis, [&](const LayerAnalysis& layer) { return best(layer, of); })));
  };
  add_best("Measured " + error, "",
           [&](const HeadEstimate& head) { return head.measured[middle]; });
  add_best("Predicted " + error, "",
           [&](const HeadEstimate& head) { return head.predicted[middle]; });
  add_best(concat("Features the best estimator needs for an error of ", analysis.target),
           "As a power of ten, as predicted; empty: no number of features.",
           [](const HeadEstimate& head) { return std::log10(head.features_needed); });
  for (const LayerAnalysis& layer : analysis.layers) {
    if (layer.estimators.empty()) {
      continue;
    }
    report::LineChart chart{concat("Layer ", layer.layer, ": error against features"),
                            "",
                            {"features", true},
                            {"error of the output", true},
                            {}};
    const std::vector<double> x(analysis.features.begin(), analysis.features.end());
    for (const EstimatorAnalysis& estimator : layer.estimators) {
      if (estimator.measured) {
        chart.series.push_back({estimator.name, x, estimator.errors});
      }
    }
    chart.series.push_back(
        {"mean of values", x, std::vector<double>(x.size(), layer.constant_error), {}, {}, true});
    section.figures.push_back(report::figure(chart));
  }
  return section;
}

Section estimator_section(const ModelAnalysis& analysis) {
  Section section{
      "Every estimator",
      {"Log-variance: log E[x²] of one draw's estimate over the kernel; the variance of "
       "F draws is exp of it, less 1, over F. From moments: for independent Gaussian "
       "queries and keys; on pairs: for keys drawn as the attention weighs them. Sample "
       "size: how many equal draws a head size of them is worth. Dark and lfk start as "
       "performer; weighted and trigonometric are no attention and only predicted."},
      {}};
  report::Table table{"Means over heads",
                      "",
                      {"layer", "estimator", "log-variance from moments", "on pairs", "sample size",
                       "features needed (best head)"},
                      {}};
  for (const LayerAnalysis& layer : analysis.layers) {
    for (const EstimatorAnalysis& estimator : layer.estimators) {
      double moments = 0.0, pairs = 0.0, sizes = 0.0;
      double needed = std::numeric_limits<double>::infinity();
      const auto count = static_cast<double>(estimator.heads.size());
      for (const HeadEstimate& head : estimator.heads) {
        moments += head.expected_log_moment / count, pairs += head.log_moment / count;
        sizes += head.sample_size / count;
        needed = std::isnan(head.features_needed) ? needed : std::min(needed, head.features_needed);
      }
      const auto value = [](double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(); };
      table.rows.push_back(
          {layer.layer, estimator.name, value(moments), value(pairs), value(sizes), value(needed)});
    }
  }
  section.figures.push_back(report::figure(table));
  return section;
}

Section reach_section(const ModelAnalysis& analysis) {
  Section section{"Where attention looks",
                  {"The share of attention of the queries in the second half of a window of text. "
                   "Empty: the text windows are too short to tell."},
                  {}};
  const auto add = [&](const std::string& title,
                       const std::vector<std::vector<double>> AttentionReach::*part,
                       std::size_t i) {
    section.figures.push_back(
        report::figure(heat_map(title, "", analysis, [&](const LayerAnalysis& layer) {
          std::vector<double> values;
          for (const std::vector<double>& head : layer.reach.*part) {
            values.push_back(head[i]);
          }
          return values;
        })));
  };
  for (std::size_t i = 0; i < analysis.windows.size(); ++i) {
    add(concat("On the last ", count_text(analysis.windows[i], "key")), &AttentionReach::windows,
        i);
  }
  for (std::size_t i = 0; i < analysis.sinks.size(); ++i) {
    add(concat("On the first ", count_text(analysis.sinks[i], "key")), &AttentionReach::sinks, i);
  }
  return section;
}

report::LineChart spectra(const std::string& title,
                          const ModelAnalysis& analysis,
                          const std::vector<estimators::Anisotropy> LayerAnalysis::*part) {
  report::LineChart chart{title,
                          "One line for each layer, the mean over its heads.",
                          {"direction", false},
                          {"variance", true},
                          {}};
  for (const LayerAnalysis& layer : analysis.layers) {
    const auto& heads = layer.*part;
    Series series{concat("layer ", layer.layer), {}, {}};
    for (std::size_t l = 0; l < heads.front().spectrum.size(); ++l) {
      double sum = 0.0;
      for (const estimators::Anisotropy& head : heads) {
        sum += head.spectrum[l];
      }
      series.x.push_back(static_cast<double>(l + 1));
      series.y.push_back(sum / static_cast<double>(heads.size()));
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Section input_section(const ModelAnalysis& analysis) {
  Section section{
      "Queries and keys",
      {"Kernel inputs: rotated, times the root of the scale. Effective rank: exp of the "
       "spectrum's entropy, the head size for a sphere. A large mean is what centring "
       "takes away."},
      {}};
  const auto add = [&](const std::string& title,
                       const std::vector<estimators::Anisotropy> LayerAnalysis::*part,
                       const OfInput& of) {
    section.figures.push_back(report::figure(heat_map(
        title, "", analysis, [&](const LayerAnalysis& layer) { return each(layer.*part, of); })));
  };
  const OfInput rank = [](const estimators::Anisotropy& a) { return a.effective_rank; };
  const OfInput mean = [](const estimators::Anisotropy& a) { return a.mean_size; };
  const OfInput size = [](const estimators::Anisotropy& a) { return a.size; };
  const OfInput condition = [](const estimators::Anisotropy& a) { return a.condition; };
  section.figures.push_back(
      report::figure(spectra("Spectra of queries", analysis, &LayerAnalysis::queries)));
  section.figures.push_back(
      report::figure(spectra("Spectra of keys", analysis, &LayerAnalysis::keys)));
  add("Queries: effective rank", &LayerAnalysis::queries, rank);
  add("Keys (kv heads): effective rank", &LayerAnalysis::keys, rank);
  add("Queries: size of the mean", &LayerAnalysis::queries, mean);
  add("Keys (kv heads): size of the mean", &LayerAnalysis::keys, mean);
  add("Queries: size", &LayerAnalysis::queries, size);
  add("Keys (kv heads): size", &LayerAnalysis::keys, size);
  add("Both (kv heads): condition", &LayerAnalysis::inputs, condition);
  return section;
}

std::vector<report::Statement> statements_of(const ModelAnalysis& analysis) {
  std::vector<report::Statement> statements;
  statements.push_back({"Conversion without training", analysis.zero_shot() ? "holds" : "fails",
                        analysis.verdict(), concat("target ", analysis.target)});
  for (const Correlation& c : analysis.correlations) {
    statements.push_back(
        {concat("Errors are predicted, ", count_text(c.features, "feature")),
         c.predicted >= kGoodCorrelation ? "holds" : "caveat",
         concat("Rank correlation of predicted and measured errors over layers, heads and "
                "estimators; the moments alone (Gaussian theory) reach ",
                rounded(c.moments), "."),
         rounded(c.predicted)});
  }
  return statements;
}

}  // namespace

report::Results analysis_results(const ModelAnalysis& analysis, const std::string& model) {
  report::Results results;
  results.kind = "analysis";
  results.title = "Attention of " + model;
  results.summary =
      concat("What random features would do to it: ", count_text(analysis.fitted_tokens, "token"),
             " to fit, ", analysis.held_out_tokens, " held out to measure, in windows of ",
             analysis.context, ".");
  results.statements = statements_of(analysis);
  results.sections = {advice_section(analysis), error_section(analysis),
                      estimator_section(analysis), reach_section(analysis),
                      input_section(analysis)};
  return results;
}

}  // namespace darkformer
