// Kernel and attention error against the number of features, for every estimator.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/base/threads.h"
#include "darkformer/commands/variance_parts.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer {
namespace {

using namespace estimators;

constexpr std::size_t kErrorDim = 16, kTokens = 40, kRepeats = 6;
constexpr double kClip = 0.1;
const std::vector<std::size_t> kFeatures = {8, 16, 32, 64, 128, 256};

struct Inputs {
  std::string name;
  InputMoments moments;
  Matrix q, k;
};

// Covariances with this mean eigenvalue and condition, means of about this length.
struct InputShape {
  double eigenvalue = 0.1, condition = 1.0, mean_size = 0.0;
};

Inputs make_inputs(std::uint64_t seed, const InputShape& shape, std::string name) {
  const Matrix covariance =
      covariance_with(geometric_spectrum(kErrorDim, shape.eigenvalue, shape.condition),
                      random_rotation(kErrorDim, {seed, 30}));
  const double root = shape.mean_size / std::sqrt(static_cast<double>(kErrorDim));
  const Matrix means = scale(normal_matrix(2, kErrorDim, {seed, 31}), root);
  Inputs inputs{std::move(name),
                {Vector(means.row(0).begin(), means.row(0).end()),
                 Vector(means.row(1).begin(), means.row(1).end()), covariance, covariance},
                {},
                {}};
  inputs.q = gaussian_rows(kTokens, inputs.moments.query_mean, covariance, {seed, 32});
  inputs.k = gaussian_rows(kTokens, inputs.moments.key_mean, covariance, {seed, 33});
  return inputs;
}

std::vector<FeatureFamily> families_of(const InputMoments& m, bool mean) {
  std::vector<FeatureFamily> families;
  const auto fit = [&](EstimatorKind kind, bool centre, bool orthogonal) {
    FitOptions options;
    options.centre = centre, options.orthogonal = orthogonal, options.clip = kClip;
    if (kind == EstimatorKind::kDark) {  // whitened, with the inputs' own mean squared size
      options.factor = whitening(symmetric_spectrum(m.query_covariance), kErrorDim, 1e-3,
                                 std::sqrt(trace(m.query_covariance) / kErrorDim));
    }
    families.push_back(fit_family(kind, m, options));
    families.back().name += orthogonal ? ", orthogonal" : "";
  };
  fit(EstimatorKind::kPerformer, false, false);
  for (const EstimatorKind kind :
       {EstimatorKind::kPerformer, EstimatorKind::kImportance, EstimatorKind::kOprf,
        EstimatorKind::kSderf, EstimatorKind::kAderf, EstimatorKind::kDark,
        EstimatorKind::kTrigonometric}) {
    fit(kind, false, true);
  }
  if (mean) {
    fit(EstimatorKind::kPerformer, true, true);
    fit(EstimatorKind::kSderf, true, true);
  }
  return families;
}

struct Errors {
  double kernel = 0.0, attention = 0.0;
};

// Of one set of draws: root mean square error over that of the kernel, and the same
// for normalised attention.
Errors errors_of(const FeatureFamily& family,
                 const Inputs& in,
                 std::size_t F,
                 std::uint64_t seed,
                 std::uint32_t repeat) {
  const FeatureDraws draws = draw(family, F, seed, 6000, repeat);
  const Matrix exact = exact_attention_of(family, in.q, in.k);
  const Matrix got = attention_estimate(family, draws, in.q, in.k);
  double difference = 0.0, size = 0.0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const double relative = relative_estimate(family, draws, in.q.row(t), in.k.row(t)) - 1.0;
    const double kernel = std::exp(log_kernel(family, in.q.row(t), in.k.row(t)));
    difference += relative * relative * kernel * kernel;
    size += kernel * kernel;
  }
  return {std::sqrt(difference / size),
          std::sqrt(squared_norm(add(got, exact, -1.0).values()) / squared_norm(exact.values()))};
}

double median(Vector values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

struct ErrorCurves {
  report::Series kernel, attention;
};

ErrorCurves curve_of(const FeatureFamily& family, const Inputs& in, std::uint64_t seed) {
  std::vector<Errors> errors(kFeatures.size() * kRepeats);
  parallel_for(errors.size(), [&](std::size_t i) {
    errors[i] = errors_of(family, in, kFeatures[i / kRepeats], seed,
                          static_cast<std::uint32_t>(i % kRepeats));
  });
  ErrorCurves curve{{family.name, {}, {}, {}, {}}, {family.name, {}, {}, {}, {}}};
  for (std::size_t f = 0; f < kFeatures.size(); ++f) {
    const auto add_point = [&](report::Series& series, double Errors::*member) {
      Vector values;
      for (std::size_t r = 0; r < kRepeats; ++r) {
        values.push_back(errors[f * kRepeats + r].*member);
      }
      series.x.push_back(static_cast<double>(kFeatures[f]));
      series.y.push_back(median(values));
      series.low.push_back(*std::min_element(values.begin(), values.end()));
      series.high.push_back(*std::max_element(values.begin(), values.end()));
    };
    add_point(curve.kernel, &Errors::kernel);
    add_point(curve.attention, &Errors::attention);
  }
  return curve;
}

double last_error(const report::LineChart& chart, const std::string& name) {
  for (const report::Series& series : chart.series) {
    if (series.name == name) {
      return series.y.back();
    }
  }
  fail("no curve ", name);
}

// Median attention error at one F over inputs of growing size.
report::LineChart sizes_of(std::uint64_t seed) {
  constexpr std::size_t kFixed = 64;
  report::LineChart chart{"Attention error against the size of the inputs",
                          concat("Anisotropic, no mean, F = ", kFixed,
                                 ", orthogonal draws; importance is clipped from eigenvalues of "
                                 "about 0.4 on."),
                          {"mean eigenvalue of Λ", true},
                          {"relative error", true},
                          {}};
  for (const double eigenvalue : {0.0125, 0.025, 0.05, 0.1, 0.2, 0.4}) {
    const Inputs in = make_inputs(seed, {eigenvalue, 30.0}, "");
    std::size_t line = 0;
    for (const FeatureFamily& family : families_of(in.moments, false)) {
      if (!family.orthogonal || family.trigonometric) {
        continue;
      }
      if (line == chart.series.size()) {
        chart.series.push_back({family.name, {}, {}});
      }
      Vector errors(kRepeats);
      parallel_for(kRepeats, [&](std::size_t r) {
        errors[r] = errors_of(family, in, kFixed, seed, static_cast<std::uint32_t>(r)).attention;
      });
      chart.series[line].x.push_back(eigenvalue);
      chart.series[line].y.push_back(median(errors));
      ++line;
    }
  }
  return chart;
}

// Spectrum of the inputs and of the proposals fitted to them.
report::LineChart spectra_of(const Inputs& in) {
  report::LineChart chart{"Spectra: inputs, and proposals fitted to them",
                          in.name,
                          {"direction"},
                          {"eigenvalue", true},
                          {}};
  const auto line = [&](const std::string& name, const Vector& values) {
    report::Series series{name, {}, {}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1)), series.y.push_back(values[i]);
    }
    chart.series.push_back(series);
  };
  FitOptions options;
  options.clip = kClip;
  line("inputs", symmetric_spectrum(in.moments.query_covariance).values);
  for (const EstimatorKind kind :
       {EstimatorKind::kImportance, EstimatorKind::kOprf, EstimatorKind::kSderf}) {
    line(std::string(estimator_name(kind)), fit_family(kind, in.moments, options).proposal.values);
  }
  return chart;
}

}  // namespace

void add_errors(VarianceRun& run) {
  const std::vector<Inputs> all = {
      make_inputs(run.seed, {}, "isotropic, no mean"),
      make_inputs(run.seed, {0.1, 30.0}, "anisotropic, no mean"),
      make_inputs(run.seed, {0.1, 1.0, 1.0}, "isotropic, with a mean"),
      make_inputs(run.seed, {0.1, 30.0, 1.0}, "anisotropic, with a mean")};
  report::Section section{
      "Error against the number of features",
      {concat("Gaussian queries and keys, ", kTokens, " of each, D = ", kErrorDim,
              ", mean eigenvalue 0.1, condition 1 or 30, means of length about 1; medians of ",
              kRepeats,
              " draws, bands from least to most. Orthogonal draws unless said otherwise. "
              "importance is clipped at ",
              kClip,
              ". dark has M = Λ^−½ scaled to the inputs' size and is "
              "measured against its own kernel exp(qᵀΣk), which is another one than the others'.")},
      {}};
  std::vector<report::LineChart> attention;
  for (const Inputs& in : all) {
    report::LineChart kernel{
        "Kernel error, " + in.name, "", {"features F", true}, {"relative error", true}, {}};
    attention.push_back(
        {"Attention error, " + in.name, "", {"features F", true}, {"relative error", true}, {}});
    for (const FeatureFamily& family : families_of(in.moments, in.name.ends_with("with a mean"))) {
      const ErrorCurves curve = curve_of(family, in, run.seed);
      kernel.series.push_back(curve.kernel), attention.back().series.push_back(curve.attention);
    }
    section.figures.push_back(figure(attention.back()));
    section.figures.push_back(figure(kernel));
    run.tick(), run.tick();
  }
  section.figures.push_back(figure(spectra_of(all[1])));
  run.results.sections.push_back(section);
  const report::LineChart sizes = sizes_of(run.seed);
  run.results.sections.back().figures.push_back(figure(sizes));
  const auto error = [&](const report::LineChart& chart, const char* name) {
    return digits(last_error(chart, name));
  };
  run.caveat(
      "Section 3 (data-aligned draws reduce the error)",
      "They do, while inputs are small enough for the optimum to exist. V(ψ) is ruled by the "
      "largest kernels, so its optimum is not that of attention: with larger inputs it must be "
      "clipped, where sderf, which minimises the mean logarithm, always exists.",
      concat("anisotropic inputs, eigenvalue 0.1, F = 256: performer ",
             error(attention[1], "performer, orthogonal"), ", importance ",
             error(attention[1], "importance, orthogonal"), ", sderf ",
             error(attention[1], "sderf, orthogonal"),
             "; eigenvalue 0.4, F = 64: ", error(sizes, "performer, orthogonal"), ", ",
             error(sizes, "importance, orthogonal"), ", ", error(sizes, "sderf, orthogonal")));
  run.caveat("The theory's zero means",
             "Theorem 3.2 assumes them. Centring is exact for attention and takes the mean's share "
             "of the variance away.",
             concat("anisotropic with a mean, F = 256: performer ",
                    error(attention[3], "performer, orthogonal"), ", centred ",
                    error(attention[3], "performer, centred, orthogonal"), "; sderf ",
                    error(attention[3], "sderf, orthogonal"), ", centred ",
                    error(attention[3], "sderf, centred, orthogonal")));
}

}  // namespace darkformer
