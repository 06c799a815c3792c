// Checks of dark attention's arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/dark_sizes.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "darkformer/base/error.h"

namespace darkformer::ops {
namespace {

thread_local bool forced_composition = false;

// The call being checked: what every message needs.
struct Door {
  const char* op;
  const at::Tensor& q;

  // A parameter: of the type of the sums, on the same device.
  void parameter(const char* name,
                 const at::Tensor& x,
                 at::IntArrayRef shape,
                 const char* meaning) const {
    require(x.sizes() == shape, op, ": ", name, " is ", x.sizes(), " but ", meaning, " = ", shape,
            " is needed here");
    const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    require(x.scalar_type() == type, op, ": ", name, " is ", x.scalar_type(), "; with q in ",
            q.scalar_type(), " it must be ", type);
    require(x.device() == q.device(), op, ": ", name, " is on ", x.device(), " but q is on ",
            q.device());
  }
  void optional(const char* name,
                const Optional<at::Tensor>& x,
                at::IntArrayRef shape,
                const char* meaning) const {
    if (x) {
      parameter(name, *x, shape, meaning);
    }
  }
};

void check_options(const char* op, const DarkSizes& s, const DarkOptions& options) {
  require(std::isfinite(s.scale) && s.scale > 0.0, op, ": scale is ", s.scale,
          "; it must be positive and finite");
  require(options.window >= 0 && options.sinks >= 0, op, ": window is ", options.window,
          " and sinks is ", options.sinks, "; neither may be negative");
  require(options.causal || options.window == 0, op, ": a window of ", options.window,
          " needs causal attention");
  require(!options.causal || s.T <= s.S, op, ": ", s.T, " queries for ", s.S,
          " keys; causal attention needs at least as many keys");
  require(!options.gate || options.window > 0 || options.sinks > 0, op,
          ": a gate joins a window to the far field; give window > 0");
  require(!options.key_factor || options.factor, op, ": key_factor is given without factor");
}

// Softmax features are made by both maps and by nothing else.
void check_softmax(const char* op, const at::Tensor& draws, const DarkOptions& options) {
  require(options.factor && options.key_factor, op,
          ": softmax_features needs factor and key_factor, the maps of queries and keys");
  require(draws.size(1) == 0, op, ": draws is ", draws.sizes(),
          "; softmax features are not drawn: (groups, 0, head size) is needed");
  require(options.factor->dim() == 3 && options.factor->size(1) > 0, op, ": factor is ",
          options.factor->sizes(), "; (groups, features / 2, head size) is needed here");
  require(!options.log_weights && !options.query_center && !options.key_center, op,
          ": softmax features have neither log_weights nor centres");
}

void check_random(const char* op, const DarkSizes& s, const at::Tensor& draws, bool mapped) {
  require(s.F > 0, op, ": draws is ", draws.sizes(), "; at least one feature is needed");
  require(s.R > 0 && s.R <= s.D, op, ": draws is ", draws.sizes(),
          "; the rank must be between 1 and the head size ", s.D);
  require(mapped || s.R == s.D, op, ": draws is ", draws.sizes(),
          "; without a factor the rank must be the head size ", s.D);
}

}  // namespace

void check_attention_inputs(const char* op,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v) {
  for (const auto& [name, x] :
       {std::pair<const char*, const at::Tensor&>{"q", q}, {"k", k}, {"v", v}}) {
    require(x.defined() && x.dim() == 4, op, ": ", name, " has ", x.defined() ? x.dim() : 0,
            " dimensions; (batch, heads, time, size) is needed");
    require(x.scalar_type() == q.scalar_type(), op, ": ", name, " is ", x.scalar_type(),
            " but q is ", q.scalar_type());
    require(x.device() == q.device(), op, ": ", name, " is on ", x.device(), " but q is on ",
            q.device());
  }
  const auto type = q.scalar_type();
  require(type == at::kFloat || type == at::kBFloat16 || type == at::kDouble, op, ": q is ", type,
          "; float32, bfloat16 or float64 is needed");
  require(k.size(0) == q.size(0) && v.size(0) == q.size(0), op, ": q, k and v have batches of ",
          q.size(0), ", ", k.size(0), " and ", v.size(0), "; they must agree");
  require(k.size(1) == v.size(1) && k.size(2) == v.size(2), op, ": k is ", k.sizes(), " but v is ",
          v.sizes(), "; heads and time must agree");
  require(q.size(3) == k.size(3) && q.size(3) > 0, op, ": q is ", q.sizes(), " but k is ",
          k.sizes(), "; head sizes must agree and be positive");
  require(k.size(1) > 0 && q.size(1) > 0 && q.size(1) % k.size(1) == 0, op, ": ", q.size(1),
          " query heads do not divide among ", k.size(1), " key heads");
  require(v.size(3) > 0 && q.size(0) > 0 && q.size(2) > 0 && k.size(2) > 0, op, ": q is ",
          q.sizes(), " and v is ", v.sizes(), "; no size may be 0");
}

DarkSizes check_dark(const char* op,
                     const at::Tensor& q,
                     const at::Tensor& k,
                     const at::Tensor& v,
                     const at::Tensor& draws,
                     const DarkOptions& options) {
  check_attention_inputs(op, q, k, v);
  require(draws.defined() && draws.dim() == 3, op, ": draws has ",
          draws.defined() ? draws.dim() : 0, " dimensions; (groups, features, rank) is needed");
  DarkSizes s = {q.size(0),
                 q.size(1),
                 k.size(1),
                 draws.size(0),
                 q.size(2),
                 k.size(2),
                 q.size(3),
                 v.size(3),
                 draws.size(1),
                 draws.size(2),
                 options.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))))};
  require(s.N == s.G || s.N == s.H, op, ": draws is ", draws.sizes(), " for ", s.H,
          " query heads and ", s.G, " key heads; its first size must be one of them");
  const Door door = {op, q};
  if (options.softmax_features) {
    check_softmax(op, draws, options);
    s.R = options.factor->size(1), s.F = 2 * s.R;
    door.parameter("draws", draws, {s.N, 0, s.D}, "(groups, 0, head size)");
  } else {
    check_random(op, s, draws, options.factor.has_value());
    door.parameter("draws", draws, {s.N, s.F, s.R}, "(groups, features, rank)");
  }
  check_options(op, s, options);
  door.optional("factor", options.factor, {s.N, s.R, s.D}, "(groups, rank, head size)");
  door.optional("key_factor", options.key_factor, {s.N, s.R, s.D}, "(groups, rank, head size)");
  door.optional("log_weights", options.log_weights, {s.N, s.F}, "(groups, features)");
  door.optional("query_center", options.query_center, {s.N, s.D}, "(groups, head size)");
  door.optional("key_center", options.key_center, {s.G, s.D}, "(key heads, head size)");
  if (options.gate && options.gate->dim() == 4) {
    door.parameter("gate", *options.gate, {s.B, s.H, s.T, 2}, "(batch, heads, time, 2)");
  } else {
    door.optional("gate", options.gate, {s.H, 2}, "(heads, 2)");
  }
  return s;
}

void check_dark_state(const char* op,
                      const DarkSizes& s,
                      const at::Tensor& q,
                      const DarkOptions& options,
                      const DarkState& state) {
  require(options.causal && s.T == s.S, op, ": ", s.T, " queries for ", s.S, " keys, causal ",
          options.causal, "; a state goes on with as many queries as keys, causally");
  if (state.empty()) {
    return;
  }
  require(state.size() == kDarkStateTensors, op, ": the state has ", state.size(), " tensors; ",
          kDarkStateTensors, " are needed");
  const char* names[] = {"S",      "z",      "log_scale", "position", "ring_k",
                         "ring_v", "sink_k", "sink_v",    "value_sum"};
  const DarkState model = empty_dark_state(s, options, q);
  for (std::size_t i = 0; i < model.size(); ++i) {
    const bool fits = state[i].defined() && state[i].sizes() == model[i].sizes() &&
                      state[i].scalar_type() == model[i].scalar_type() &&
                      state[i].device() == model[i].device() && state[i].is_contiguous();
    require(fits, op, ": the state's ", names[i], " is ",
            state[i].defined() ? state[i].sizes() : at::IntArrayRef(), " but a contiguous ",
            model[i].scalar_type(), " ", model[i].sizes(),
            " is needed; is it the state of another model?");
  }
}

DarkState empty_dark_state(const DarkSizes& s, const DarkOptions& options, const at::Tensor& like) {
  const auto sums = like.options()
                        .dtype(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                        .requires_grad(false);
  const auto zeros = [&](at::IntArrayRef shape) { return at::zeros(shape, sums); };
  return {zeros({s.B, s.N, s.F, s.Dv}),
          zeros({s.B, s.N, s.F}),
          at::full({s.B, s.N}, -std::numeric_limits<double>::infinity(), sums),
          at::zeros({1}, at::TensorOptions().dtype(at::kLong)),
          zeros({s.B, s.G, options.window, s.D}),
          zeros({s.B, s.G, options.window, s.Dv}),
          zeros({s.B, s.G, options.sinks, s.D}),
          zeros({s.B, s.G, options.sinks, s.Dv}),
          zeros({s.B, s.N, s.Dv})};
}

bool runs_kernels(const at::Tensor& q) {
  return q.device().is_cpu() && q.scalar_type() != at::kDouble && !forced_composition;
}

ForceComposition::ForceComposition() : before_(forced_composition) {
  forced_composition = true;
}
ForceComposition::~ForceComposition() {
  forced_composition = before_;
}
bool composition_forced() {
  return forced_composition;
}
void set_composition_forced(bool forced) {
  forced_composition = forced;
}

}  // namespace darkformer::ops
