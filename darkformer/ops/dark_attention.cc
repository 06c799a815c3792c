// The op over our kernels: autograd, prefill and step, with the composition where the kernels do
// not run.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/dark_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <atomic>

#include "darkformer/base/error.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/ops/dark_composition.h"
#include "darkformer/ops/dark_sizes.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/heads_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::atomic<std::int64_t> vanished{0};

// The tensors of one call, contiguous where the kernels need it, and the kernels' view of them.
struct KernelCall {
  KernelCall(const DarkSizes& s, const DarkOptions& o, const variable_list& tensors)
      : all(tensors) {
    const auto size = [](std::int64_t x) { return static_cast<std::size_t>(x); };
    shape.B = size(s.B), shape.H = size(s.H), shape.G = size(s.G), shape.N = size(s.N),
    shape.T = size(s.T), shape.S = size(s.S);
    shape.D = size(s.D), shape.Dv = size(s.Dv), shape.F = size(s.F), shape.R = size(s.R);
    shape.scale = static_cast<float>(s.scale), shape.causal = o.causal,
    shape.window = size(o.window), shape.sinks = size(o.sinks), shape.model_near = o.model_near,
    shape.far_all = o.far_all, shape.softmax_features = o.softmax_features;
    inputs.q = heads_view(all[0]), inputs.k = heads_view(all[1]), inputs.v = heads_view(all[2]);
    inputs.parameters = {pointer_or_null(all[3]), pointer_or_null(all[4]),
                         pointer_or_null(all[5]), pointer_or_null(all[6]),
                         pointer_or_null(all[7]), pointer_or_null(all[8]),
                         pointer_or_null(all[9]), all[9].defined() && all[9].dim() == 4};
  }

  variable_list
      all;  // q, k, v, draws, factor, key_factor, log_weights, query_center, key_center, gate
  kernels::DarkAttention shape;
  kernels::DarkInputs inputs;
};

variable_list kernel_tensors(
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& draws, const DarkOptions& o) {
  return {q,
          k,
          v,
          draws.contiguous(),
          contiguous_or_undefined(o.factor),
          contiguous_or_undefined(o.key_factor),
          contiguous_or_undefined(o.log_weights),
          contiguous_or_undefined(o.query_center),
          contiguous_or_undefined(o.key_center),
          contiguous_or_undefined(o.gate)};
}

// Which tensors of a call want a gradient, one bit each. Read in forward: what backward gets back
// from the graph no longer tells.
std::int64_t wanted_bits(const variable_list& tensors) {
  std::int64_t bits = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    bits |= static_cast<std::int64_t>(tensors[i].defined() && tensors[i].requires_grad()) << i;
  }
  return bits;
}

// What the kernels keep between forward and backward, carried by the autograd graph.
struct SavedCache : torch::CustomClassHolder {
  kernels::DarkCache cache;
};

DarkOptions plain_options(const DarkOptions& o) {
  DarkOptions plain;
  plain.causal = o.causal, plain.window = o.window, plain.sinks = o.sinks;
  plain.model_near = o.model_near, plain.far_all = o.far_all;
  plain.softmax_features = o.softmax_features;
  return plain;
}

class DarkFunction : public torch::autograd::Function<DarkFunction> {
 public:
  using MaybeTensor = Optional<Tensor>;

  static Tensor forward(AutogradContext* context,
                        const DarkSizes& s,
                        const DarkOptions& o,
                        bool record,
                        const Tensor& q,
                        const Tensor& k,
                        const Tensor& v,
                        const Tensor& draws,
                        const MaybeTensor& factor,
                        const MaybeTensor& key_factor,
                        const MaybeTensor& log_weights,
                        const MaybeTensor& query_center,
                        const MaybeTensor& key_center,
                        const MaybeTensor& gate) {
    const auto tensor = [](const MaybeTensor& x) { return x.value_or(Tensor()); };
    variable_list x = {q,
                       k,
                       v,
                       draws,
                       tensor(factor),
                       tensor(key_factor),
                       tensor(log_weights),
                       tensor(query_center),
                       tensor(key_center),
                       tensor(gate)};
    const KernelCall call(s, o, x);
    const Tensor out = fresh_tensor({s.B, s.H, s.T, s.Dv}, q.options());
    auto saved = c10::make_intrusive<SavedCache>();
    vanished += static_cast<std::int64_t>(kernels::dark_attention(
        call.shape, call.inputs, heads_view_of_output(out), saved->cache, record));
    if (record) {
      context->saved_data["wanted"] = wanted_bits(x);
      x.push_back(out);
      context->save_for_backward(x);
      context->saved_data["cache"] = c10::IValue::make_capsule(saved);
      context->saved_data["sizes"] = std::vector<std::int64_t>{s.B,
                                                               s.H,
                                                               s.G,
                                                               s.N,
                                                               s.T,
                                                               s.S,
                                                               s.D,
                                                               s.Dv,
                                                               s.F,
                                                               s.R,
                                                               o.causal ? 1 : 0,
                                                               o.window,
                                                               o.sinks,
                                                               o.model_near ? 1 : 0,
                                                               o.far_all ? 1 : 0,
                                                               o.softmax_features ? 1 : 0};
      context->saved_data["scale"] = s.scale;
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list d_out) {
    check_first_order("dark_attention");
    const variable_list saved = context->get_saved_variables();
    const auto n = context->saved_data["sizes"].toIntVector();
    const DarkSizes s = {n[0],
                         n[1],
                         n[2],
                         n[3],
                         n[4],
                         n[5],
                         n[6],
                         n[7],
                         n[8],
                         n[9],
                         context->saved_data["scale"].toDouble()};
    DarkOptions o;
    o.causal = n[10] != 0, o.window = n[11], o.sinks = n[12], o.model_near = n[13] != 0,
    o.far_all = n[14] != 0, o.softmax_features = n[15] != 0;
    const auto cache =
        c10::static_intrusive_pointer_cast<SavedCache>(context->saved_data["cache"].toCapsule());
    const KernelCall call(s, o, variable_list(saved.begin(), saved.begin() + 10));
    const std::int64_t wanted = context->saved_data["wanted"].toInt();
    constexpr std::size_t kAlwaysMade = 3;  // q, k, v: the kernels need a place for theirs
    variable_list gradients(10);
    std::vector<float*> to(10, nullptr);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (i < kAlwaysMade || (wanted >> i & 1) != 0) {
        gradients[i] = fresh_tensor_like(saved[i]);
        to[i] = gradients[i].data_ptr<float>();
      }
    }
    kernels::dark_attention_backward(
        call.shape, call.inputs, heads_view(saved[10]), heads_view(d_out[0]), cache->cache,
        {to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7], to[8], to[9]});
    variable_list all(13);
    std::copy(gradients.begin(), gradients.end(), all.begin() + 3);
    return all;
  }
};

bool wants_gradient(const variable_list& tensors) {
  return at::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& x) { return x.defined() && x.requires_grad(); });
}

kernels::DarkState kernel_state(DarkState& state) {
  return {
      state[0].data_ptr<float>(),        state[1].data_ptr<float>(), state[2].data_ptr<float>(),
      state[3].data_ptr<std::int64_t>(), state[4].data_ptr<float>(), state[5].data_ptr<float>(),
      state[6].data_ptr<float>(),        state[7].data_ptr<float>(), state[8].data_ptr<float>()};
}

using StateKernel = std::size_t (*)(const kernels::DarkAttention&,
                                    const kernels::DarkInputs&,
                                    const kernels::DarkState&,
                                    kernels::HeadsView<float>);

// Runs prefill or step on float32 copies of q, k, v; the state is updated in place.
Tensor run_on_state(StateKernel kernel,
                    const DarkSizes& s,
                    const variable_list& tensors,
                    const DarkOptions& o,
                    DarkState& state) {
  const at::NoGradGuard no_gradients;
  variable_list floats = tensors;
  for (std::size_t i = 0; i < 3; ++i) {
    floats[i] = tensors[i].to(at::kFloat);
  }
  const KernelCall call(s, o, floats);
  const Tensor out = fresh_tensor({s.B, s.H, s.T, s.Dv}, floats[0].options());
  vanished += static_cast<std::int64_t>(
      kernel(call.shape, call.inputs, kernel_state(state), heads_view_of_output(out)));
  return out.to(tensors[0].scalar_type());
}

// A state is a matter of values; of a meta tensor only the shape is known.
void check_has_values(const char* op, const Tensor& q) {
  require(!q.is_meta(), op, ": q is on meta and has no values; dark_attention tells its shape");
}

// The composition computes in float32 for bfloat16 inputs, as the kernels do.
DarkPrefill compose(const DarkSizes& s,
                    const Tensor& q,
                    const Tensor& k,
                    const Tensor& v,
                    const Tensor& draws,
                    const DarkOptions& o,
                    const DarkState& state) {
  const auto type = q.scalar_type() == at::kBFloat16 ? at::kFloat : q.scalar_type();
  DarkComposition result = dark_composition(s, q.to(type), k.to(type), v.to(type), draws, o, state);
  return {result.out.to(q.scalar_type()), std::move(result.state)};
}

}  // namespace

Tensor dark_attention(const Tensor& q,
                      const Tensor& k,
                      const Tensor& v,
                      const Tensor& draws,
                      const DarkOptions& options) {
  const DarkSizes s = check_dark("dark_attention", q, k, v, draws, options);
  if (q.is_meta()) {
    return at::empty({s.B, s.H, s.T, s.Dv}, q.options());
  }
  // A window or sinks beyond the text are the whole text.
  DarkOptions o = options;
  o.window = std::min(o.window, s.S);
  o.sinks = std::min(o.sinks, s.S);
  if (!runs_kernels(q)) {
    return compose(s, q, k, v, draws, o, {}).out;
  }
  const variable_list x =
      kernel_tensors(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), draws, o);
  const auto maybe = [](const Tensor& tensor) {
    return tensor.defined() ? Optional<Tensor>(tensor) : Optional<Tensor>();
  };
  const Tensor out = DarkFunction::apply(s, plain_options(o), wants_gradient(x), x[0], x[1], x[2],
                                         x[3], maybe(x[4]), maybe(x[5]), maybe(x[6]), maybe(x[7]),
                                         maybe(x[8]), maybe(x[9]));
  return out.to(q.scalar_type());
}

DarkPrefill dark_attention_prefill(const Tensor& q,
                                   const Tensor& k,
                                   const Tensor& v,
                                   const Tensor& draws,
                                   const DarkOptions& o,
                                   const DarkState& state) {
  const DarkSizes s = check_dark("dark_attention_prefill", q, k, v, draws, o);
  check_has_values("dark_attention_prefill", q);
  check_dark_state("dark_attention_prefill", s, q, o, state);
  const variable_list x = kernel_tensors(q, k, v, draws, o);
  if (!runs_kernels(q) || wants_gradient(x)) {
    return compose(s, q, k, v, draws, o, state);
  }
  DarkPrefill result;
  result.state = state.empty() ? empty_dark_state(s, o, q) : state;
  for (Tensor& tensor : result.state) {
    tensor = state.empty() ? tensor : tensor.clone();
  }
  result.out = run_on_state(kernels::dark_attention_prefill, s, x, o, result.state);
  return result;
}

Tensor dark_attention_step(const Tensor& q,
                           const Tensor& k,
                           const Tensor& v,
                           const Tensor& draws,
                           const DarkOptions& o,
                           DarkState& state) {
  const DarkSizes s = check_dark("dark_attention_step", q, k, v, draws, o);
  check_has_values("dark_attention_step", q);
  require(s.T == 1, "dark_attention_step: q has ", s.T,
          " tokens; a step takes one, dark_attention_prefill takes more");
  require(!state.empty(),
          "dark_attention_step: the state is empty; dark_attention_prefill starts a sequence");
  check_dark_state("dark_attention_step", s, q, o, state);
  if (runs_kernels(q)) {
    return run_on_state(kernels::dark_attention_step, s, kernel_tensors(q, k, v, draws, o), o,
                        state);
  }
  const at::NoGradGuard no_gradients;
  const DarkPrefill next = compose(s, q, k, v, draws, o, state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i].copy_(next.state[i]);
  }
  return next.out;
}

Tensor dark_near_share(const Tensor& q,
                       const Tensor& k,
                       const Tensor& draws,
                       const DarkOptions& o) {
  const at::NoGradGuard no_gradients;
  const DarkSizes s = check_dark("dark_near_share", q, k, k, draws, o);
  require(o.window > 0 || o.sinks > 0, "dark_near_share: there is neither a window nor a sink");
  check_has_values("dark_near_share", q);
  const auto type = q.scalar_type() == at::kBFloat16 ? at::kFloat : q.scalar_type();
  return dark_composition(s, q.to(type), k.to(type), k.to(type), draws, o, {}).share;
}

std::int64_t vanished_rows() {
  return vanished;
}

}  // namespace darkformer::ops
