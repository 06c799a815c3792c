// One token onto a state: the decode step, for one (batch, group) after the other, on threads.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cassert>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/dark_state.h"
#include "darkformer/kernels/softmax_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/dark_attention_step.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/dithered_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {  // equal names in other files are other things

HWY_INLINE float dot(const float* x, const float* y, std::size_t count) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  }
  float result = sum_of_lanes(d, sum);
  for (; i < count; ++i) {
    result += x[i] * y[i];
  }
  return result;
}

// y <- y + scale x
HWY_INLINE void add_scaled(float scale, const float* x, std::size_t count, float* y) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(factor, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  }
  for (; i < count; ++i) {
    y[i] += scale * x[i];
  }
}

// One (batch, group) of a step.
struct Step {
  Step(const DarkAttention& shape,
       const DarkInputs& inputs,
       const DarkState& state_,
       HeadsView<float> output,
       std::size_t problem)
      : s(shape),
        in(inputs),
        p(in.parameters),
        state(state_),
        o(output),
        b(problem / s.N),
        n(problem % s.N),
        g(key_head(s, n)),
        root(s.softmax_features ? 1.0F : std::sqrt(s.scale)),
        position(*state.position),
        sum(state.sum + problem * s.F * s.Dv),
        weight(state.weight + problem * s.F),
        value_sum(state.value_sum + problem * s.Dv),
        log_scale(state.log_scale + problem),
        logs(row_stride(s.F)),
        x(s.D + s.Dv),
        u(s.R),
        center(s.R),
        far(s.Dv),
        near(s.Dv),
        mapped(s.D),
        logits(s.window + s.sinks + 1) {
    std::fill(logs.data(), logs.data() + row_stride(s.F), -1.0e30F);
    std::fill(center.data(), center.data() + s.R, 0.0F);
    if (p.query_center != nullptr) {
      map(p.factor, p.query_center + n * s.D, center.data());
    }
  }

  // The key that leaves the window (without one, or with far_all: the new key) enters the sums,
  // unless it is a sink.
  void absorb() {
    const std::int64_t leaving = position - static_cast<std::int64_t>(far_delay(s));
    if (leaving < static_cast<std::int64_t>(far_skip(s))) {
      return;
    }
    float* key = x.data();
    float* value = x.data() + s.D;
    if (far_delay(s) == 0) {
      read(in.k.row(b, g, 0), in.k.element, key_center(), s.D, key);
      read(in.v.row(b, g, 0), in.v.element, nullptr, s.Dv, value);
    } else {
      const std::size_t slot =
          (b * s.G + g) * s.window + static_cast<std::size_t>(leaving) % s.window;
      read(state.ring_k + slot * s.D, 1, key_center(), s.D, key);
      read(state.ring_v + slot * s.Dv, 1, nullptr, s.Dv, value);
    }
    key_logs(key);
    raise_scale(integer_scale(highest_log()));
    exponentiate(*log_scale - kKeyRange, *log_scale);
    add_to_sums(value);
  }

  // All query heads of the group; returns how many rows fell back.
  std::size_t attend_all() {
    const std::size_t shared = s.H / s.N;
    std::size_t fallback_rows = 0;
    for (std::size_t h = n * shared; h < (n + 1) * shared; ++h) {
      fallback_rows += attend(h);
    }
    return fallback_rows;
  }

 private:
  // y <- root M x; the logits of softmax features have no root
  void map(const float* factor, const float* from, float* y) const {
    for (std::size_t r = 0; r < s.R; ++r) {
      y[r] = root * (factor == nullptr ? from[r] : dot(factor + (n * s.R + r) * s.D, from, s.D));
    }
  }

  static void read(
      const float* row, std::ptrdiff_t element, const float* shift, std::size_t count, float* to) {
    for (std::size_t d = 0; d < count; ++d) {
      to[d] = row[static_cast<std::ptrdiff_t>(d) * element] - (shift == nullptr ? 0.0F : shift[d]);
    }
  }

  const float* key_map() const { return p.key_factor == nullptr ? p.factor : p.key_factor; }
  const float* key_center() const {
    return p.key_center == nullptr ? nullptr : p.key_center + g * s.D;
  }

  // logs <- log2 phi_k of a centred key
  void key_logs(const float* key) {
    map(key_map(), key, u.data());
    if (s.softmax_features) {
      softmax_logs(u.data(), s.R, logs.data());
    } else {
      feature_logs(dot(center.data(), u.data(), s.R) - 0.5F * dot(u.data(), u.data(), s.R));
    }
  }

  // logs <- log2 phi_q of the mapped query but for what log_z adds
  void query_logs() {
    if (s.softmax_features) {
      softmax_logs(u.data(), s.R, logs.data());
    } else {
      feature_logs(0.0F);
    }
  }

  // logs <- log2(e) (w . u + shift + lambda / 2)
  void feature_logs(float shift) {
    for (std::size_t f = 0; f < s.F; ++f) {
      const float weighted = p.log_weights == nullptr ? 0.0F : 0.5F * p.log_weights[n * s.F + f];
      logs[f] = kLog2E * (dot(p.draws + (n * s.F + f) * s.R, u.data(), s.R) + shift + weighted);
    }
  }

  float highest_log() const {
    float top = logs[0];
    for (std::size_t f = 1; f < s.F; ++f) {
      top = std::max(top, logs[f]);
    }
    return top;
  }

  // logs <- 2^(logs - scale), zero below lowest
  void exponentiate(float lowest, float scale) {
    const FloatTag d;
    for (std::size_t f = 0; f < s.F; f += hn::Lanes(d)) {
      hn::StoreU(feature(d, hn::LoadU(d, logs.data() + f), hn::Set(d, lowest), hn::Set(d, scale)),
                 d, logs.data() + f);
    }
  }

  void raise_scale(std::int32_t top) {
    if (!(static_cast<float>(top) > *log_scale)) {
      return;
    }
    const bool first = std::isinf(*log_scale);
    const float factor =
        first ? 0.0F
              : std::ldexp(1.0F, std::max(static_cast<std::int32_t>(*log_scale) - top, -300));
    scale_row(sum, s.F * s.Dv, factor);
    scale_row(weight, s.F, factor);
    *log_scale = static_cast<float>(top);
  }

  void add_to_sums(const float* value) {
    const auto token = static_cast<std::uint32_t>(position);
    const auto values = static_cast<std::uint32_t>(s.F * s.Dv);
    for (std::size_t f = 0; f < s.F; ++f) {
      if (logs[f] != 0.0F) {
        const auto element = static_cast<std::uint32_t>(f * s.Dv);
        add_scaled_dithered(logs[f], value, s.Dv, token, element, sum + f * s.Dv);
      }
    }
    add_scaled_dithered(1.0F, logs.data(), s.F, token, values, weight);
    add_scaled_dithered(1.0F, value, s.Dv, token, values + static_cast<std::uint32_t>(s.F),
                        value_sum);
  }

  std::size_t attend(std::size_t h) {
    read(in.q.row(b, h, 0), in.q.element,
         p.query_center == nullptr ? nullptr : p.query_center + n * s.D, s.D, x.data());
    map(p.factor, x.data(), u.data());
    float log_far = -std::numeric_limits<float>::infinity();
    const std::size_t fallback_rows = far_field(log_far);
    float* to = o.row(b, h, 0);
    if (!has_near_field(s)) {
      write(far.data(), 0.0F, far.data(), to);
      return fallback_rows;
    }
    const float log_near = near_field(h);
    write(near.data(), share(h, log_near, log_far), far.data(), to);
    return fallback_rows;
  }

  // far <- phi_q S / phi_q z; log_z with the norm of the query. Returns 1 where all products
  // vanish.
  std::size_t far_field(float& log_z) {
    std::fill(far.data(), far.data() + s.Dv, 0.0F);
    const std::int64_t absorbed = absorbed_at(s, position + 1);
    if (absorbed == 0) {
      return 0;
    }
    query_logs();
    const std::int32_t scale = integer_scale(highest_log());
    exponentiate(static_cast<float>(scale) - kQueryRange, static_cast<float>(scale - kQueryLift));
    const float den = dot(logs.data(), weight, s.F);
    if (den < kVanished) {
      add_scaled(1.0F / static_cast<float>(absorbed), value_sum, s.Dv, far.data());
      return 1;
    }
    for (std::size_t f = 0; f < s.F; ++f) {
      if (logs[f] != 0.0F) {
        add_scaled(logs[f], sum + f * s.Dv, s.Dv, far.data());
      }
    }
    scale_row(far.data(), s.Dv, 1.0F / den);
    const double units = static_cast<double>(scale) + *log_scale - kQueryLift;
    log_z = static_cast<float>(std::log(static_cast<double>(den)) + units * 0.6931471805599453);
    if (!s.softmax_features) {
      log_z -= std::log(static_cast<float>(s.F)) + 0.5F * dot(u.data(), u.data(), s.R);
    }
    return 0;
  }

  // The new token is in the ring and the sinks already. near <- softmax over them; returns log Zn.
  // A logit is mapped . (k - b): one map for the query, none for the keys.
  float near_field(std::size_t h) {
    if (maps_near_field(s, in)) {
      map_to_keys();
    } else {
      read(in.q.row(b, h, 0), in.q.element, nullptr, s.D, mapped.data());
      scale_row(mapped.data(), s.D, s.scale);
    }
    const float shift = key_center() == nullptr ? 0.0F : dot(mapped.data(), key_center(), s.D);
    return softmax_near(shift);
  }

  // mapped <- r Mk^T (u_q + m), so that mapped . (k - b) = (u_q + m) . u_k
  void map_to_keys() {
    std::fill(mapped.data(), mapped.data() + s.D, 0.0F);
    for (std::size_t r = 0; r < s.R; ++r) {
      add_scaled(root * (u[r] + center[r]), key_map() + (n * s.R + r) * s.D, s.D, mapped.data());
    }
  }

  float softmax_near(float shift) {
    const auto tokens = static_cast<std::size_t>(position) + 1;
    const std::size_t held = std::min(tokens, s.window), sinks = std::min(s.sinks, tokens - held);
    const float* keys = state.ring_k + (b * s.G + g) * s.window * s.D;
    const float* sink_keys = state.sink_k + (b * s.G + g) * s.sinks * s.D;
    float top = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < held + sinks; ++i) {
      const float* key = i < held ? keys + i * s.D : sink_keys + (i - held) * s.D;
      logits[i] = dot(mapped.data(), key, s.D) - shift;
      top = std::max(top, logits[i]);
    }
    const float* values = state.ring_v + (b * s.G + g) * s.window * s.Dv;
    const float* sink_values = state.sink_v + (b * s.G + g) * s.sinks * s.Dv;
    std::fill(near.data(), near.data() + s.Dv, 0.0F);
    float total = 0.0F;
    for (std::size_t i = 0; i < held + sinks; ++i) {
      const float part = std::exp(logits[i] - top);
      total += part;
      add_scaled(part, i < held ? values + i * s.Dv : sink_values + (i - held) * s.Dv, s.Dv,
                 near.data());
    }
    scale_row(near.data(), s.Dv, 1.0F / total);
    return top + std::log(total);
  }

  float share(std::size_t h, float log_near, float log_far) const {
    if (std::isinf(log_far)) {
      return 1.0F;
    }
    const float* gate =
        p.gate == nullptr ? nullptr : p.gate + 2 * (p.gate_per_token ? b * s.H + h : h);
    const float argument =
        gate == nullptr ? log_near - log_far : gate[0] * (log_near - log_far) + gate[1];
    return 1.0F / (1.0F + std::exp(-argument));
  }

  void write(const float* first, float part, const float* second, float* to) const {
    for (std::size_t d = 0; d < s.Dv; ++d) {
      to[static_cast<std::ptrdiff_t>(d) * o.element] = part * first[d] + (1.0F - part) * second[d];
    }
  }

  const DarkAttention& s;
  const DarkInputs& in;
  const DarkParameters& p;
  const DarkState& state;
  HeadsView<float> o;
  std::size_t b, n, g;
  float root;
  std::int64_t position;  // of the new token
  float *sum, *weight, *value_sum, *log_scale;
  AlignedBuffer<float> logs, x, u, center, far, near, mapped, logits;
};

// Every group absorbs the token that leaves the ring before the new one takes its slot; only then
// do the queries look at it.
std::size_t dark_step(const DarkAttention& s,
                      const DarkInputs& in,
                      const DarkState& state,
                      HeadsView<float> o) {
  parallel_for(s.B * s.N, [&](std::size_t i) { Step(s, in, state, o, i).absorb(); });
  keep_tokens(s, kept_keys(s, state), in.k, *state.position);
  keep_tokens(s, kept_values(s, state), in.v, *state.position);
  std::atomic<std::size_t> fallback_rows{0};
  parallel_for(s.B * s.N,
               [&](std::size_t i) { fallback_rows += Step(s, in, state, o, i).attend_all(); });
  return fallback_rows;
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(dark_step);
}  // namespace

std::size_t dark_attention_step(const DarkAttention& shape,
                                const DarkInputs& in,
                                const DarkState& state,
                                HeadsView<float> o) {
  assert(shape.causal && shape.T == 1 && shape.S == 1);
  const std::size_t fallback_rows = HWY_DYNAMIC_DISPATCH(dark_step)(shape, in, state, o);
  *state.position += 1;
  return fallback_rows;
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
