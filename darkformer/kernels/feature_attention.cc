// Forward pass of feature attention: blocks of keys and queries in order, threads over groups and,
// where those are few, over time.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/feature_attention.h"

#include <atomic>
#include <cassert>

#include "darkformer/base/memory.h"
#include "darkformer/base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/feature_attention.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/feature_plan.h"
#include "darkformer/kernels/feature_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {  // equal names in other files are other things

// The query side of one block, for one head after another.
struct QueryBlock {
  QueryBlock(const FeatureAttentionInputs& inputs, std::size_t most)
      : ldq(row_stride(inputs.Dq)),
        ldc(row_stride(most)),
        ldv(row_stride(inputs.Dv)),
        q(most * ldq),
        q_t(inputs.Dq * ldc),
        phi_t(inputs.F * ldc),
        a(most * ldc),
        o(most * ldv),
        columns(ldc) {}

  std::size_t ldq, ldc, ldv;
  AlignedBuffer<float> q, q_t, phi_t;  // (queries,Dq), (Dq,queries), (F,queries)
  AlignedBuffer<float> a, o;           // (queries,queries), (queries,Dv)
  QueryColumns columns;
};

// One task of the forward pass: a stretch of the keys of one (b, n), with the queries that see them
// last.
struct ForwardWalk {
  ForwardWalk(const FeatureAttentionInputs& inputs,
              const FeatureAttentionOutputs& outputs,
              const FeatureTask& stretch)
      : in(inputs),
        out(outputs),
        task(stretch),
        chunk(feature_chunk(in)),
        keys(in, task.b, task.n, chunk),
        queries(in, chunk),
        state(in.F, in.Dv) {}

  // Absorbs the task's keys without looking at queries.
  void absorb_all() {
    for (std::size_t key = task.key_begin; key < task.key_end;) {
      key = absorb_from(key, task.key_end, 0, 0);
    }
  }

  // Walks keys and queries together (causal): after each block of keys, the queries for which they
  // are the last ones.
  void attend_causally() {
    const std::size_t first_seen = first_query_key(in);
    for (std::size_t key = task.key_begin; key < task.key_end;) {
      const bool seen = key >= first_seen;
      const std::size_t end = seen ? task.key_end : std::min(task.key_end, first_seen);
      key = absorb_from(key, end, seen ? key + in.delay + in.T - in.S : 0, seen ? chunk : 0);
    }
  }

  // Queries that see all keys (non-causal).
  void attend_all() {
    const std::size_t at = save_state();
    for (std::size_t t = task.query_begin; t < task.query_end; t += chunk) {
      const FeatureBlock block = {in.S,        0,           t,  std::min(chunk, task.query_end - t),
                                  state.scale, state.scale, at, state.absorbed};
      remember(block);
      attend(block);
    }
  }

  const FeatureAttentionInputs& in;
  const FeatureAttentionOutputs& out;
  FeatureTask task;
  std::size_t chunk;
  KeyBlock keys;
  QueryBlock queries;
  RunningState state;
  std::size_t fallback_rows = 0;

 private:
  // One block of keys from `key` on and, if most_queries > 0, as many queries from query0 on;
  // returns the next key.
  std::size_t absorb_from(std::size_t key,
                          std::size_t end,
                          std::size_t query0,
                          std::size_t most_queries) {
    const std::int32_t before = state.scale;
    keys.read(key, std::min(chunk, end - key), before);
    state.rescale(keys.scale, keys.first);
    FeatureBlock block = {key,    keys.keys,  query0, most_queries > 0 ? keys.keys : 0,
                          before, keys.scale, 0,      state.absorbed};
    if (block.queries > 0) {
      block.state = save_state();
      attend(block);
    }
    remember(block);
    absorb(keys, state);
    return key + keys.keys;
  }

  void attend(const FeatureBlock& block) {
    const std::size_t shared = in.H / in.N;
    for (std::size_t h = task.n * shared; h < (task.n + 1) * shared; ++h) {
      attend_head(block, h);
    }
  }

  void attend_head(const FeatureBlock& block, std::size_t h) {
    const std::size_t rows = block.queries;
    QueryBlock& s = queries;
    // phi_q <- features of q
    const float* center = in.query_center == nullptr ? nullptr : in.query_center + task.n * in.Dq;
    pack_rows(in.q.row(task.b, h, block.query0), in.q.time, in.q.element, center, rows, in.Dq,
              s.q.data(), s.ldq);
    pack_transposed(s.q.data(), s.ldq, rows, in.Dq, s.q_t.data(), s.ldc);
    prefetch_around(block, h);
    tile_product(in.F, rows, in.Dq, {in.query_draws + task.n * in.F * in.Dq, in.Dq, 1},
                 {s.q_t.data(), s.ldc}, {s.phi_t.data(), s.ldc, false});
    query_features(in.F, rows, keys.bias.data(), state.weight.data(), s.phi_t.data(), s.ldc,
                   s.columns);
    // o <- phi_q S + tril(phi_q phi_k^T) v
    tile_product(rows, in.Dv, in.F, {s.phi_t.data(), 1, s.ldc}, {state.sum.data(), state.ld},
                 {s.o.data(), s.ldv, false});
    if (block.keys > 0) {
      lower_product(rows, in.F, {s.phi_t.data(), 1, s.ldc}, {keys.phi_t.data(), keys.ldc},
                    s.a.data(), s.ldc);
      clear_upper(rows, kTileRows, s.a.data(), s.ldc, nullptr, s.columns.den.data());
      add_lower_times(rows, in.Dv, s.a.data(), s.ldc, {keys.v.data(), keys.ldv}, s.o.data(), s.ldv);
    }
    write_rows(block, h);
  }

  // The next queries of this head, and where this block's output goes.
  void prefetch_around(const FeatureBlock& block, std::size_t h) const {
    const std::size_t next = block.query0 + block.queries;
    prefetch_rows<false>(in.q.row(task.b, h, next), in.q.time, in.q.element,
                         std::min(block.queries, in.T - next), in.Dq);
    prefetch_rows<true>(out.o.row(task.b, h, block.query0), out.o.time, out.o.element,
                        block.queries, in.Dv);
  }

  // o <- o / den, or the mean of the visible values where every product vanished; log_z; den for
  // the backward pass.
  void write_rows(const FeatureBlock& block, std::size_t h) {
    QueryBlock& s = queries;
    const std::size_t first = (task.b * in.H + h) * in.T + block.query0;
    for (std::size_t i = 0; i < block.queries; ++i) {
      float* row = s.o.data() + i * s.ldv;
      float& den = s.columns.den[i];
      // No row's bound is above kVanished: the exact one is for the rows below it only.
      if (den < kVanished && den < vanished_below(block, i)) {
        den = 0.0F;
        mean_of_values(block, i, row);
        ++fallback_rows;
        write_row(row, 1.0F, out.o.row(task.b, h, block.query0 + i));
      } else {
        write_row(row, 1.0F / den, out.o.row(task.b, h, block.query0 + i));
      }
      if (out.log_z != nullptr) {
        out.log_z[first + i] = log_z(den, s.columns.scales[i], block.scale);
      }
      if (out.cache != nullptr) {
        out.cache->den[first + i] = den;
      }
    }
  }

  // to <- row * factor
  void write_row(const float* row, float factor, float* to) const {
    const FloatTag d;
    std::size_t i = 0;
    for (; out.o.element == 1 && i + hn::Lanes(d) <= in.Dv; i += hn::Lanes(d)) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, to + i);
    }
    for (; i < in.Dv; ++i) {
      to[static_cast<std::ptrdiff_t>(i) * out.o.element] = row[i] * factor;
    }
  }

  float log_z(float den, float query_scale, std::int32_t key_scale) const {
    const double units = static_cast<double>(query_scale) + key_scale - kQueryLift;
    return static_cast<float>(std::log(static_cast<double>(den)) + units * 0.6931471805599453 -
                              std::log(static_cast<double>(in.F)));
  }

  // kVanished in the block's units: the running scale at this row's last key may be lower than the
  // block's.
  float vanished_below(const FeatureBlock& block, std::size_t i) const {
    const float running =
        block.keys > 0 ? keys.lowest[i] + kKeyRange : static_cast<float>(block.scale);
    return kVanished *
           std::ldexp(1.0F, static_cast<int>(running - static_cast<float>(block.scale)));
  }

  void mean_of_values(const FeatureBlock& block, std::size_t i, float* row) const {
    const std::size_t own = block.keys > 0 ? i + 1 : 0;
    const auto count = static_cast<float>(state.absorbed + static_cast<std::int64_t>(own));
    for (std::size_t d = 0; d < in.Dv; ++d) {
      double sum = state.value_sum[d];
      for (std::size_t j = 0; j < own; ++j) {
        sum += keys.v[j * keys.ldv + d];
      }
      row[d] = count > 0.0F ? static_cast<float>(sum / count) : 0.0F;
    }
  }

  // The state on entry of a block, appended to the cache: S (F,Dv), z (F), value_sum (Dv); where it
  // stands.
  std::size_t save_state() {
    if (out.cache == nullptr) {
      return 0;
    }
    std::vector<float>& to = out.cache->tasks[task.index].states;
    const std::size_t at = to.size();
    if (at == 0) {  // one state a block; a block that ends early adds to them
      const std::size_t blocks = in.causal ? (task.key_end - task.key_begin) / chunk + 1 : 1;
      to.reserve(blocks * in.F * (in.Dv + 1));
      prefer_huge_pages(to.data(), to.capacity() * sizeof(float));
    }
    for (std::size_t f = 0; f < in.F; ++f) {
      to.insert(to.end(), state.sum.data() + f * state.ld, state.sum.data() + f * state.ld + in.Dv);
    }
    to.insert(to.end(), state.weight.data(), state.weight.data() + in.F);
    return at;
  }

  void remember(const FeatureBlock& block) {
    if (out.cache != nullptr) {
      out.cache->tasks[task.index].blocks.push_back(block);
    }
  }
};

// The sums over one stretch alone. A non-causal walk is recorded here, because its queries come in
// another pass.
RunningState sum_stretch(const FeatureAttentionInputs& in,
                         const FeatureAttentionOutputs& out,
                         const FeatureTask& task) {
  const FeatureAttentionOutputs unrecorded;
  ForwardWalk walk(in, in.causal ? unrecorded : out, task);
  walk.absorb_all();
  return std::move(walk.state);
}

// The state on entry of each task of one (b, n). Causal: all stretches before it; otherwise all
// keys.
void enter_tasks(const FeatureAttentionInputs& in,
                 const FeatureAttentionOutputs& out,
                 std::size_t problem,
                 std::size_t stretches,
                 std::vector<RunningState>& states) {
  RunningState running(in.F, in.Dv);
  if (out.state != nullptr) {
    load_state(in, *out.state, problem, running);
  }
  for (std::size_t i = problem * stretches; i < (problem + 1) * stretches; ++i) {
    RunningState before = copy_of(running);
    if (stretches > 1 || !in.causal) {
      add_state(states[i], running);
    }
    states[i] = std::move(before);
  }
  if (!in.causal) {
    for (std::size_t i = problem * stretches; i < (problem + 1) * stretches; ++i) {
      states[i] = copy_of(running);
    }
  }
}

// The queries of one task; returns how many rows fell back. The last task of a problem holds the
// state on return.
std::size_t attend_task(const FeatureAttentionInputs& in,
                        const FeatureAttentionOutputs& out,
                        const FeatureTask& task,
                        RunningState& entry) {
  ForwardWalk walk(in, out, task);
  walk.state = std::move(entry);
  if (in.causal) {
    walk.attend_causally();
  } else {
    walk.attend_all();
  }
  if (out.state != nullptr && task.last) {
    store_state(in, walk.state, task.b * in.N + task.n, *out.state);
  }
  return walk.fallback_rows;
}

std::size_t feature_forward(const FeatureAttentionInputs& in, const FeatureAttentionOutputs& out) {
  const std::size_t stretches = feature_stretches(in);
  const std::vector<FeatureTask> tasks = feature_tasks(in, stretches);
  std::vector<RunningState> states;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    states.emplace_back(in.F, in.Dv);
  }
  if (stretches > 1 || !in.causal) {
    parallel_for(tasks.size(), [&](std::size_t i) { states[i] = sum_stretch(in, out, tasks[i]); });
  }
  parallel_for(in.B * in.N, [&](std::size_t p) { enter_tasks(in, out, p, stretches, states); });
  std::atomic<std::size_t> fallback_rows{0};
  parallel_for(tasks.size(),
               [&](std::size_t i) { fallback_rows += attend_task(in, out, tasks[i], states[i]); });
  return fallback_rows;
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(feature_forward);

// Queries before the first that sees a key: o = 0, log_z = -inf.
void clear_blind_rows(const FeatureAttentionInputs& in, const FeatureAttentionOutputs& out) {
  const std::size_t blind = blind_queries(in);
  for (std::size_t bh = 0; bh < in.B * in.H; ++bh) {
    for (std::size_t t = 0; t < blind; ++t) {
      float* row = out.o.row(bh / in.H, bh % in.H, t);
      for (std::size_t d = 0; d < in.Dv; ++d) {
        row[static_cast<std::ptrdiff_t>(d) * out.o.element] = 0.0F;
      }
      if (out.log_z != nullptr) {
        out.log_z[bh * in.T + t] = -std::numeric_limits<float>::infinity();
      }
    }
  }
}

}  // namespace

std::size_t feature_attention(const FeatureAttentionInputs& in,
                              const FeatureAttentionOutputs& out) {
  assert(in.H % in.N == 0 && in.N % in.key_heads == 0 && in.N % in.value_heads == 0);
  assert(!in.causal || in.T <= in.S);
  if (out.cache != nullptr) {
    assert(out.state == nullptr || out.state->absorbed == 0);
    out.cache->tasks.assign(in.B * in.N * feature_stretches(in), {});
    out.cache->den.assign(in.B * in.H * in.T, 0.0F);
  }
  const bool past = out.state != nullptr && out.state->absorbed > 0;
  if (!past) {
    clear_blind_rows(in, out);
  }
  const std::size_t fallback_rows = HWY_DYNAMIC_DISPATCH(feature_forward)(in, out);
  if (out.state != nullptr) {
    out.state->absorbed += static_cast<std::int64_t>(absorbed_keys(in));
  }
  return fallback_rows;
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
