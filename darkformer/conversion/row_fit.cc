// Adam on the rows of one mixer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/row_fit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numbers>

#include "darkformer/base/error.h"
#include "darkformer/kernels/adamw.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer {
namespace {

using at::Tensor;

// (B,G,T,T): a value for each key that tells which one it is.
Tensor key_marks(const Tensor& k) {
  const std::int64_t T = k.size(2);
  return at::eye(T, k.options()).expand({k.size(0), k.size(1), T, T}).contiguous();
}

std::vector<std::string> names_of(FitPart part) {
  switch (part) {
    case FitPart::kFactor:
      return {"factor"};
    case FitPart::kKeyFactor:
      return {"key_factor"};
    case FitPart::kDraws:
      return {"draws"};
    case FitPart::kCentres:
      return {"query_center", "key_center"};
    default:
      return {"gate_scale", "gate_bias", "gate_weight"};
  }
}

// A tensor of the mixer under Adam. It asks for gradients while this lives.
class FittedTensor {
 public:
  explicit FittedTensor(Tensor value)
      : value_(std::move(value)),
        asked_(value_.requires_grad()),
        start_(value_.detach().clone()),
        first_(at::zeros_like(start_)),
        second_(at::zeros_like(start_)) {
    value_.requires_grad_(true);
  }
  ~FittedTensor() {
    value_.mutable_grad() = Tensor();
    value_.requires_grad_(asked_);
  }
  FittedTensor(const FittedTensor&) = delete;
  FittedTensor& operator=(const FittedTensor&) = delete;

  void update(double rate, std::int64_t step) {
    const Tensor gradient = value_.grad();
    if (!gradient.defined()) {
      return;
    }
    const Tensor flat = gradient.contiguous();
    kernels::adamw_step({.learning_rate = rate, .step = step},
                        {value_.data_ptr<float>(), flat.data_ptr<float>(), first_.data_ptr<float>(),
                         second_.data_ptr<float>(), static_cast<std::size_t>(value_.numel())});
    value_.mutable_grad() = Tensor();
  }
  void restore() {
    const at::NoGradGuard no_gradients;
    value_.copy_(start_);
  }

 private:
  Tensor value_;
  bool asked_;
  Tensor start_, first_, second_;
};

using FittedTensors = std::vector<std::unique_ptr<FittedTensor>>;

// Draws and maps that the mixer does not learn were drawn or computed, and stay; so do the centres
// that go with them.
FittedTensors fitted_tensors(Mixer& mixer, const std::vector<FitPart>& parts) {
  FittedTensors found;
  const auto parameters = mixer.named_parameters(false), buffers = mixer.named_buffers(false);
  const bool learns = parameters.contains("factor") || parameters.contains("draws");
  for (const FitPart part : parts) {
    const bool centres = part == FitPart::kCentres;
    for (const std::string& name : names_of(part)) {
      const Tensor* tensor = centres && learns ? buffers.find(name) : parameters.find(name);
      if (tensor != nullptr) {
        found.push_back(std::make_unique<FittedTensor>(*tensor));
      }
    }
  }
  return found;
}

double rate_at(const RowFitOptions& o, std::int64_t step) {
  const double done = static_cast<double>(step - 1) / static_cast<double>(o.steps);
  return o.rate *
         (o.final_share + (1.0 - o.final_share) * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
}

// Windows step b, step b + 1, ... of the first `count`, around and around.
Tensor windows_of(const Tensor& x, std::int64_t step, std::int64_t batch, std::int64_t count) {
  const Tensor chosen = at::arange(step * batch, (step + 1) * batch, at::kLong).remainder(count);
  return x.index_select(0, chosen);
}

void descend(Mixer& mixer, const MixerShape& shape, const Tensor& q, const Tensor& k) {
  at::AutoGradMode gradients(true);
  const Tensor r = mixer_rows(mixer, q, k);
  const at::AutoGradMode none(false);
  const Tensor p = exact_rows(shape, q, k);
  const double rows = static_cast<double>(p.numel() / p.size(3));
  const Tensor slope = (p / r.detach().clamp_min(kLeastWeight)).mul_(-1.0 / rows);
  torch::autograd::backward({r}, {slope});
}

std::vector<double> mean_kl(Mixer& mixer,
                            const MixerShape& shape,
                            const Tensor& q,
                            const Tensor& k) {
  const at::AutoGradMode none(false);
  Tensor sum = at::zeros({shape.heads}, at::kDouble);
  for (std::int64_t w = 0; w < q.size(0); ++w) {
    const Tensor one_q = q.narrow(0, w, 1), one_k = k.narrow(0, w, 1);
    sum += row_kl(exact_rows(shape, one_q, one_k), mixer_rows(mixer, one_q, one_k));
  }
  sum /= static_cast<double>(q.size(0));
  return {sum.data_ptr<double>(), sum.data_ptr<double>() + shape.heads};
}

double sum_of(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value;
  }
  return sum;
}

}  // namespace

Tensor mixer_rows(Mixer& mixer, const Tensor& q, const Tensor& k) {
  return mixer.forward(q, k, key_marks(k));
}

Tensor exact_rows(const MixerShape& shape, const Tensor& q, const Tensor& k) {
  return mixer_rows(*make_mixer(shape, {}, 0, 0), q, k);
}

Tensor row_kl(const Tensor& p, const Tensor& r) {
  const Tensor least = at::full({}, kLeastWeight, p.options());
  const Tensor logs = at::maximum(p, least).log_().sub_(at::maximum(r, least).log_());
  return (p * logs).sum(-1).to(at::kDouble).mean(at::IntArrayRef({0, 2}));
}

RowFit fit_rows(Mixer& mixer,
                const MixerShape& shape,
                const RowExamples& x,
                const RowFitOptions& o,
                const std::function<void()>& each) {
  const std::int64_t windows = x.q.size(0), fitted = windows - x.held;
  require(fitted > 0, "layer ", shape.layer, ": no window of text is left to fit to");
  const std::int64_t first = x.held > 0 ? fitted : 0;
  const Tensor held_q = x.q.slice(0, first), held_k = x.k.slice(0, first);
  RowFit result;
  result.before = mean_kl(mixer, shape, held_q, held_k);
  FittedTensors tensors = fitted_tensors(mixer, o.parts);
  for (std::int64_t step = 1; step <= o.steps && !tensors.empty(); ++step) {
    descend(mixer, shape, windows_of(x.q, step, o.batch, fitted),
            windows_of(x.k, step, o.batch, fitted));
    for (const auto& tensor : tensors) {
      tensor->update(rate_at(o, step), step);
    }
    if (each) {
      each();
    }
  }
  result.after = mean_kl(mixer, shape, held_q, held_k);
  if (!(sum_of(result.after) < sum_of(result.before))) {
    for (const auto& tensor : tensors) {
      tensor->restore();
    }
    result.after = result.before;
  }
  return result;
}

}  // namespace darkformer
