// The composition: log-features, then chunks of queries with a running state, then the near field
// and the gate.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/dark_composition.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace darkformer::ops {
namespace {

using at::Tensor;

constexpr std::int64_t kChunk = 128;
constexpr double kLn2 = 0.6931471805599453;
constexpr double kVanished = 0x1p-100;  // as in the kernels, which lift queries by 2^64

// (B,G,S,X) -> (B,N,S,X): each kv head once for each of its groups.
Tensor for_groups(const Tensor& x, const DarkSizes& s) {
  return s.N == s.G ? x : x.repeat_interleave(s.N / s.G, 1);
}

// The inputs of both fields in the notation of kernels/dark_attention.h.
struct Mapped {
  Tensor
      near_q;  // u_q + m (B,N,H/N,T,R), or scale q (B,N,H/N,T,D): near logits are near_q . near_k
  Tensor near_k;  // u_k (B,N,S,R), or k - b (B,N,S,D)
  Tensor log_q;   // (B,N,H/N,T,F), with the norm
  Tensor log_k;   // (B,N,S,F)
  Tensor v;       // (B,N,S,Dv)
};

// (...,F/2) -> (...,F): the logarithms of both halves of the softmax features.
Tensor softmax_logs(const Tensor& logits) {
  return at::cat({at::log_softmax(logits, -1), at::log_softmax(-logits, -1)}, -1);
}

Mapped map_softmax(
    const DarkSizes& s, const Tensor& q, const Tensor& k, const Tensor& v, const DarkOptions& o) {
  const Tensor queries = q.reshape({s.B, s.N, s.H / s.N, s.T, s.D}), keys = for_groups(k, s);
  const Tensor maps = o.factor->transpose(-1, -2).unsqueeze(1),  // (N,1,D,F/2)
      key_maps = o.key_factor->transpose(-1, -2);                // (N,D,F/2)
  return {s.scale * queries, keys, softmax_logs(at::matmul(queries, maps)),
          softmax_logs(at::matmul(keys, key_maps)), for_groups(v, s)};
}

Mapped map_arguments(const DarkSizes& s,
                     const Tensor& q,
                     const Tensor& k,
                     const Tensor& v,
                     const Tensor& draws,
                     const DarkOptions& o) {
  if (o.softmax_features) {
    return map_softmax(s, q, k, v, o);
  }
  const double root = std::sqrt(s.scale);
  const Tensor center = o.query_center ? *o.query_center : Tensor();
  const Tensor own_q = q.reshape({s.B, s.N, s.H / s.N, s.T, s.D});
  Tensor queries = own_q;
  Tensor keys = o.key_center ? k - o.key_center->unsqueeze(1) : k;
  const Tensor own_k = for_groups(keys, s);
  keys = own_k;
  Tensor shift = center.defined() ? center.unsqueeze(1)
                                  : at::zeros({s.N, 1, s.D}, draws.options());  // (N,1,D)
  if (o.factor) {
    const Tensor map = o.factor->transpose(-1, -2);  // (N,D,R)
    queries = at::matmul(queries, map.unsqueeze(1));
    shift = at::matmul(shift, map);
    keys = at::matmul(keys, o.key_factor ? o.key_factor->transpose(-1, -2) : map);
  }
  const Tensor m = root * shift;  // (N,1,R)
  const Tensor full_q = root * queries, u_q = full_q - m.unsqueeze(1);
  const Tensor u_k = root * keys;
  const Tensor w = draws.transpose(-1, -2);  // (N,R,F)
  Tensor log_q = at::matmul(u_q, w.unsqueeze(1)) - 0.5 * u_q.square().sum(-1, true);
  Tensor log_k = at::matmul(u_k, w) + ((m - 0.5 * u_k) * u_k).sum(-1, true);
  if (o.log_weights) {
    log_q = log_q + 0.5 * o.log_weights->unsqueeze(1).unsqueeze(1);
    log_k = log_k + 0.5 * o.log_weights->unsqueeze(1);
  }
  const Tensor near_q = o.model_near ? s.scale * own_q : full_q;
  return {near_q, o.model_near ? own_k : u_k, log_q, log_k, for_groups(v, s)};
}

// The running sums of the far field.
class FarField {
 public:
  // A weight is the sum of the products of features over `divisor`.
  FarField(const Mapped& mapped, const DarkState& state, std::int64_t absorbed, double divisor)
      : x(mapped), count(absorbed), log_divisor(std::log(divisor)) {
    sum = state[0], weight = state[1], scale = state[2], values = state[8];
  }

  // Keys [from, to) enter the sums. The scale is an integer number of bits and a constant to
  // autograd.
  void absorb(std::int64_t from, std::int64_t to) {
    if (to <= from) {
      return;
    }
    const Tensor phi = features_of_keys(from, to), v = x.v.slice(2, from, to);
    sum = sum + at::matmul(phi.transpose(-1, -2), v);
    weight = weight + phi.sum(2);
    values = values + v.sum(2);
    count += to - from;
  }

  // (output, log Zf) of queries [t0, t1) over the sums and, causally, over keys from `from` on,
  // whose last one query t1 - 1 sees.
  std::pair<Tensor, Tensor> attend(std::int64_t t0,
                                   std::int64_t t1,
                                   std::int64_t from,
                                   std::int64_t to) {
    const Tensor log_q = x.log_q.slice(3, t0, t1);
    const Tensor top = std::get<0>(log_q.detach().max(-1, true));  // (B,N,h,t,1)
    Tensor own, own_values = x.v.slice(2, from, from);
    Tensor phi_k;
    if (to > from) {
      phi_k = features_of_keys(from, to);  // before the state is read: it may raise the scale
      own_values = x.v.slice(2, from, to);
    }
    const Tensor phi_q = at::exp(log_q - top);
    Tensor numerator = at::matmul(phi_q, sum.unsqueeze(2)),
           den = (phi_q * weight.unsqueeze(2).unsqueeze(3)).sum(-1, true);
    Tensor mean = values.unsqueeze(2).unsqueeze(3).expand_as(numerator),
           seen = at::full({t1 - t0, 1}, static_cast<double>(count), den.options());
    if (to > from) {
      // Query i of the chunk sees the first to - (t1 - 1 - i) keys.
      const Tensor visible =
          at::ones({t1 - t0, to - from}, den.options()).tril(to - from - (t1 - t0));
      own = at::matmul(phi_q, phi_k.transpose(-1, -2).unsqueeze(2)) * visible;
      numerator = numerator + at::matmul(own, own_values.unsqueeze(2));
      den = den + own.sum(-1, true);
      mean = mean + at::matmul(visible, own_values).unsqueeze(2);
      seen = seen + visible.sum(-1, true);
    }
    const Tensor vanished = den < kVanished;
    const Tensor safe = at::where(vanished, at::ones_like(den), den);
    const Tensor out = at::where(vanished, mean / seen.clamp_min(1.0), numerator / safe);
    const Tensor units = top + kLn2 * scale.unsqueeze(-1).unsqueeze(-1).unsqueeze(-1) - log_divisor;
    const Tensor log_z = at::where(vanished, at::full_like(den, -INFINITY), at::log(safe) + units);
    return {out, log_z};
  }

  const Mapped& x;
  Tensor sum, weight, scale, values;
  std::int64_t count;
  double log_divisor;

 private:
  Tensor features_of_keys(std::int64_t from, std::int64_t to) {
    const Tensor log_k = x.log_k.slice(2, from, to);
    const Tensor top = at::round(log_k.detach().amax({2, 3}) / kLn2);
    const Tensor next = at::maximum(scale, top);
    const Tensor factor =
        at::where(at::isinf(scale), at::zeros_like(scale), at::exp2(scale - next));
    sum = sum * factor.unsqueeze(-1).unsqueeze(-1);
    weight = weight * factor.unsqueeze(-1);
    scale = next;
    return at::exp(log_k - kLn2 * scale.unsqueeze(-1).unsqueeze(-1));
  }
};

// (output, log Zn) of queries [t0, t1) over the window and the sinks.
std::pair<Tensor, Tensor> near_field(
    const DarkSizes& s, const Mapped& x, const DarkOptions& o, std::int64_t t0, std::int64_t t1) {
  const std::int64_t past = s.S - s.T,
                     first = o.causal ? std::max<std::int64_t>(0, t0 + past - o.window + 1) : s.S;
  const std::int64_t sinks = std::min({o.sinks, s.S, first}), last = o.causal ? t1 + past : s.S;
  const auto keys_of = [&](const Tensor& y) {
    return at::cat({y.slice(2, 0, sinks), y.slice(2, first, last)}, 2);
  };
  const auto integers = x.near_k.options().dtype(at::kLong).requires_grad(false);
  const Tensor key = at::cat({at::arange(sinks, integers), at::arange(first, last, integers)});
  const Tensor query = (at::arange(t0, t1, integers) + past).unsqueeze(1);
  Tensor visible = (key < o.sinks).unsqueeze(0).expand({t1 - t0, key.size(0)});
  if (o.causal) {
    visible = (key <= query) & ((key > query - o.window) | visible);
  }
  const Tensor logits =
      at::matmul(x.near_q.slice(3, t0, t1), keys_of(x.near_k).transpose(-1, -2).unsqueeze(2));
  const Tensor masked = logits.masked_fill(~visible, -INFINITY);
  const Tensor log_z = at::logsumexp(masked, {-1}, true);
  return {at::matmul(at::exp(masked - log_z), keys_of(x.v).unsqueeze(2)), log_z};
}

// g of queries [t0, t1); a far field that is empty or vanished has no share.
Tensor near_share(const DarkSizes& s,
                  const DarkOptions& o,
                  std::int64_t t0,
                  std::int64_t t1,
                  const Tensor& log_near,
                  const Tensor& log_far) {
  Tensor c = at::ones({1}, log_near.options()), bias = at::zeros({1}, log_near.options());
  if (o.gate) {
    const bool per_token = o.gate->dim() == 4;
    const Tensor gate = per_token ? o.gate->reshape({s.B, s.N, s.H / s.N, s.T, 2}).slice(3, t0, t1)
                                  : o.gate->reshape({s.N, s.H / s.N, 1, 2});
    c = gate.slice(-1, 0, 1);
    bias = gate.slice(-1, 1, 2);
  }
  const Tensor empty = at::isinf(log_far);
  const Tensor apart = log_near - log_far.masked_fill(empty, 0.0);
  return at::sigmoid(c * apart + bias).masked_fill(empty, 1.0);
}

// A state's kept tokens before the new ones, as in kernels/dark_state.h: sinks that have left the
// ring, the ring in order.
Tensor kept_tokens(const Tensor& ring, const Tensor& sinks, std::int64_t position) {
  const std::int64_t window = ring.size(2), held = std::min(position, window),
                     first = position - held;
  const auto integers = at::TensorOptions().dtype(at::kLong).device(ring.device());
  const Tensor slots = window > 0 ? at::arange(first, position, integers).remainder(window)
                                  : at::zeros({0}, integers);
  return at::cat({sinks.slice(2, 0, std::min(sinks.size(2), first)), ring.index_select(2, slots)},
                 2);
}

Tensor keep_in_ring(const Tensor& ring, const Tensor& fresh, std::int64_t position) {
  const std::int64_t window = ring.size(2), count = std::min(window, fresh.size(2)),
                     end = position + fresh.size(2);
  if (count == 0) {
    return ring;
  }
  const Tensor slots =
      at::arange(end - count, end, at::TensorOptions().dtype(at::kLong).device(ring.device()))
          .remainder(window);
  return ring.detach().index_copy(2, slots, fresh.detach().slice(2, fresh.size(2) - count));
}

Tensor keep_in_sinks(const Tensor& sinks, const Tensor& fresh, std::int64_t position) {
  const std::int64_t count =
      std::min(sinks.size(2) - std::min(position, sinks.size(2)), fresh.size(2));
  if (count == 0) {
    return sinks;
  }
  return at::cat({sinks.slice(2, 0, position), fresh.detach().slice(2, 0, count),
                  sinks.slice(2, position + count)},
                 2);
}

}  // namespace

DarkComposition dark_composition(const DarkSizes& fresh,
                                 const Tensor& q,
                                 const Tensor& new_k,
                                 const Tensor& new_v,
                                 const Tensor& draws,
                                 const DarkOptions& o,
                                 const DarkState& given) {
  const DarkState state = given.empty() ? empty_dark_state(fresh, o, q) : given;
  const std::int64_t position = state[3].item<std::int64_t>();
  const Tensor k =
      position > 0 ? at::cat({kept_tokens(state[4], state[6], position), new_k}, 2) : new_k;
  const Tensor v =
      position > 0 ? at::cat({kept_tokens(state[5], state[7], position), new_v}, 2) : new_v;
  DarkSizes s = fresh;
  s.S = k.size(2);
  const Mapped x = map_arguments(s, q, k, v, draws, o);
  const std::int64_t past = s.S - s.T, delay = o.far_all ? 0 : o.window,
                     skip = o.far_all ? 0 : o.sinks;
  FarField far(x, state, std::max<std::int64_t>(0, position - delay - skip),
               o.softmax_features ? 1.0 : static_cast<double>(s.F));
  std::vector<Tensor> outputs, shares;
  // With far_all the tokens that a state keeps whole are in its sums already.
  std::int64_t absorbed = o.far_all && position > 0 ? past : std::min(skip, s.S);
  const auto absorb_until = [&](std::int64_t end) {
    for (; absorbed < end; absorbed = std::min(end, absorbed + kChunk)) {
      far.absorb(absorbed, std::min(end, absorbed + kChunk));
    }
  };
  absorb_until(o.causal ? past - delay : s.S);
  for (std::int64_t t0 = 0; t0 < s.T; t0 += kChunk) {
    const std::int64_t t1 = std::min(s.T, t0 + kChunk),
                       end = o.causal ? std::max(absorbed, t1 + past - delay) : s.S;
    const auto far_part = far.attend(t0, t1, absorbed, end);
    absorb_until(end);
    if (o.window == 0 && o.sinks == 0) {
      outputs.push_back(far_part.first);
      continue;
    }
    const auto near_part = near_field(s, x, o, t0, t1);
    const Tensor share = near_share(s, o, t0, t1, near_part.second, far_part.second);
    outputs.push_back(share * near_part.first + (1.0 - share) * far_part.first);
    shares.push_back(share);
  }
  const Tensor out = at::cat(outputs, 3).reshape({s.B, s.H, s.T, s.Dv});
  return {
      out,
      shares.empty() ? Tensor() : at::cat(shares, 3).reshape({s.B, s.H, s.T, 1}),
      {far.sum.detach(), far.weight.detach(), far.scale.detach(),
       at::full({1}, position + s.T, state[3].options()), keep_in_ring(state[4], new_k, position),
       keep_in_ring(state[5], new_v, position), keep_in_sinks(state[6], new_k, position),
       keep_in_sinks(state[7], new_v, position), far.values.detach()}};
}

}  // namespace darkformer::ops
