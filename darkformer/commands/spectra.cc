// darkformer spectra: how far from round the queries, keys and learned covariances of a model are.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <ostream>

#include "darkformer/base/error.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/collect_moments.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct SpectraOptions {
  fs::path model;
  std::vector<fs::path> data, against;
  std::int64_t tokens = 65536, context = 1024;

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("data", data, "texts to take covariances from", {.required = true});
    field("against", against, "texts whose covariances are the truth for covariance_error");
    field("tokens", tokens, "tokens of --data to read", {.minimum = 2});
    field("context", context, "tokens of a window", {.minimum = 1});
  }
};

using Moments = std::vector<std::shared_ptr<LayerMoments>>;

Moments moments_over(const SpectraOptions& o,
                     const std::vector<fs::path>& files,
                     std::int64_t tokens,
                     Decoder& model,
                     Context& context) {
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const EvaluationWindows windows(open_data(files, {}, tokenizer, context), o.context);
  return collect_moments(model, windows, tokens, [&](std::int64_t) {
    context.stop_if_interrupted("stopped; nothing was written");
  });
}

// Eigenvalues (N,D) no smaller than `floor` times their mean: below it is noise of the sum.
at::Tensor floored(const at::Tensor& values) {
  constexpr double kFloor = 1e-6;
  const at::Tensor mean = values.mean(-1, true).clamp_min(1e-300);
  return at::maximum(values, kFloor * mean);
}

// ln of the arithmetic over the geometric mean of the eigenvalues, the mean over N: 0 if and only
// if all are equal.
double anisotropy(const at::Tensor& covariance) {
  const at::Tensor values = floored(at::linalg_eigvalsh(covariance));
  return (values.mean(-1).log() - values.log().mean(-1)).mean().item<double>();
}

// The logarithm of a symmetric matrix without its trace: what of it is shape and not size.
at::Tensor log_shape(const at::Tensor& matrix) {
  const auto [values, vectors] = at::linalg_eigh(matrix);
  const at::Tensor logs = floored(values).log();
  const at::Tensor centred = logs - logs.mean(-1, true);
  return at::matmul(vectors * centred.unsqueeze(-2), vectors.transpose(-1, -2));
}

// -<log Sigma, log Lambda> over their norms, the mean over N: 1 where Sigma is a power of
// Lambda^-1, 0 where Sigma is round or its axes have nothing to do with those of Lambda.
double whitening_correlation(const at::Tensor& sigma, const at::Tensor& lambda) {
  const at::Tensor a = log_shape(sigma), b = log_shape(lambda);
  const auto size = [](const at::Tensor& x) {
    return (x * x).sum(at::IntArrayRef({-2, -1})).sqrt();
  };
  const at::Tensor norms = (size(a) * size(b)).clamp_min(1e-12);
  return (-(a * b).sum(at::IntArrayRef({-2, -1})) / norms).mean().item<double>();
}

at::Tensor pooled(const LayerMoments& moments, std::int64_t groups) {
  return (moments.query_covariance(groups) + moments.key_covariance(groups)) / 2;
}

// Means over layers.
class LayerMeans {
 public:
  void add(const std::string& name, double value) {
    auto& [sum, count] = sums_[name];
    sum += value, ++count;
  }
  OrderedJson json() const {
    OrderedJson object;
    for (const auto& [name, sum] : sums_) {
      object[name] = sum.first / sum.second;
    }
    return object;
  }

 private:
  std::map<std::string, std::pair<double, int>> sums_;
};

void add_factor(const Decoder& model,
                std::int64_t layer,
                const LayerMoments& moments,
                LayerMeans& means) {
  const auto parameters = model.block(layer)->attention()->mixer()->named_parameters();
  const at::Tensor* found = parameters.find("factor");
  if (found == nullptr) {
    return;
  }
  const at::Tensor factor = found->to(at::kDouble);  // (N,R,D)
  const at::Tensor lambda = pooled(moments, factor.size(0));
  const at::Tensor sigma = at::matmul(factor.transpose(-1, -2), factor);
  means.add("mapped_anisotropy",
            anisotropy(at::matmul(at::matmul(factor, lambda), factor.transpose(-1, -2))));
  means.add("sigma_anisotropy", anisotropy(sigma));
  means.add("whitening_correlation", whitening_correlation(sigma, lambda));
}

void spectra(const SpectraOptions& o, Context& context) {
  const at::NoGradGuard no_gradients;
  const std::shared_ptr<Decoder> model = load_model(o.model);
  const Moments moments = moments_over(o, o.data, o.tokens, *model, context);
  // As many tokens for the truth as there are: its own error must not count.
  constexpr std::int64_t kTruth = 65536;
  const Moments truth =
      o.against.empty() ? Moments() : moments_over(o, o.against, kTruth, *model, context);
  LayerMeans means;
  for (std::int64_t layer = 0; layer < model->layers(); ++layer) {
    const LayerMoments& m = *moments[static_cast<std::size_t>(layer)];
    const std::int64_t groups = model->config().kv_heads_of(layer);
    means.add("query_anisotropy", anisotropy(m.query_covariance(groups)));
    means.add("key_anisotropy", anisotropy(m.key_covariance(groups)));
    means.add("anisotropy", anisotropy(pooled(m, groups)));
    add_factor(*model, layer, m, means);
    if (!truth.empty()) {
      const at::Tensor want = pooled(*truth[static_cast<std::size_t>(layer)], groups);
      means.add("covariance_error",
                ((pooled(m, groups) - want).norm() / want.norm()).item<double>());
    }
  }
  OrderedJson object = means.json();
  object["model"] = o.model.string();
  if (context.common.json) {
    context.print_json(object);
    return;
  }
  for (const auto& [name, value] : object.items()) {
    context.out << name << ": " << value << '\n';
  }
}

}  // namespace

Command spectra_command() {
  return make_command<SpectraOptions>(
      {.name = "spectra",
       .summary = "Measure how far from round queries, keys and covariances are",
       .example = "darkformer spectra gemma-2b --data text.jsonl --tokens 4096",
       .details = "Means over layers of ln(arithmetic / geometric mean) of the eigenvalues of a "
                  "covariance, 0 where it is round. For darkformer reproduce.",
       .hidden = true},
      spectra);
}

}  // namespace darkformer
