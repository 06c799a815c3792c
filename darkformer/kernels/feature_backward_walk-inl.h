// One task of the backward pass of feature attention: its blocks in reverse, features recomputed,
// states from the cache.
// SPDX-License-Identifier: Apache-2.0
//
// With g_t = d_o_t / den_t and c_t = (d_log_z_t - d_o_t . o_t) / den_t (docs/math.md derives it):
//   dphi_q_t = sum_s (g_t . v_s + c_t) phi_k_s         dphi_k_s = sum_t (g_t . v_s + c_t) phi_q_t
//   dv_s     = sum_t (phi_q_t . phi_k_s) g_t           dlog2 phi = ln 2 phi dphi
// Sums over s before the block come from its state (S, z), sums over t after it from the running dS
// = sum phi_q^T g, dz = sum c phi_q.

#if defined(DARKFORMER_KERNELS_FEATURE_BACKWARD_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_FEATURE_BACKWARD_WALK_INL_H_
#undef DARKFORMER_KERNELS_FEATURE_BACKWARD_WALK_INL_H_
#else
#define DARKFORMER_KERNELS_FEATURE_BACKWARD_WALK_INL_H_
#endif

#include <cassert>
#include <vector>

#include "darkformer/kernels/feature_plan.h"
#include "darkformer/kernels/feature_walk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {

// What later queries contribute to the gradients of earlier keys, in units of 2^-scale.
struct RunningGradient {
  RunningGradient(std::size_t features, std::size_t values)
      : F(features),
        Dv(values),
        ld(row_stride(values)),
        sum(F * ld),
        weight(row_stride(F)),
        mean(ld) {
    std::fill(sum.data(), sum.data() + F * ld, 0.0F);
    std::fill(weight.data(), weight.data() + row_stride(F), 0.0F);
    std::fill(mean.data(), mean.data() + ld, 0.0F);
  }

  // S in units of 2^next is S 2^(scale - next), so its gradient takes the inverse factor; walking
  // back, next <= scale.
  void rescale(std::int32_t next) {
    if (scale != kNoScale && next != scale) {
      const float factor = std::ldexp(1.0F, std::max(next - scale, -300));
      scale_row(sum.data(), F * ld, factor);
      scale_row(weight.data(), F, factor);
    }
    scale = next;
  }

  void add(const RunningGradient& later) {
    assert(later.scale == scale || later.scale == kNoScale);
    for (std::size_t i = 0; i < F * ld; ++i) {
      sum[i] += later.sum[i];
    }
    for (std::size_t f = 0; f < F; ++f) {
      weight[f] += later.weight[f];
    }
    for (std::size_t d = 0; d < Dv; ++d) {
      mean[d] += later.mean[d];
    }
  }

  std::size_t F, Dv, ld;
  AlignedBuffer<float> sum, weight,
      mean;  // dS (F,Dv), dz (F), the gradient of each value from rows that fell back (Dv)
  std::int32_t scale = kNoScale;
};

// The gradients of the parameters, summed over one task.
struct ParameterGradients {
  explicit ParameterGradients(const FeatureAttentionInputs& in)
      : ldq(row_stride(in.Dq)),
        ldk(row_stride(in.Dk)),
        query_draws(in.F * ldq, 0.0F),
        key_draws(in.F * ldk, 0.0F),
        bias(in.F, 0.0F),
        key_slope(ldk, 0.0F) {}

  std::size_t ldq, ldk;
  std::vector<float> query_draws, key_draws, bias, key_slope;
};

struct BackwardWalk {
  BackwardWalk(const FeatureAttentionInputs& inputs,
               const FeatureAttentionGradients& gradients,
               const FeatureTask& stretch)
      : in(inputs),
        out(gradients),
        task(stretch),
        chunk(feature_chunk(in)),
        ldq(row_stride(in.Dq)),
        ldk(row_stride(in.Dk)),
        ldv(row_stride(in.Dv)),
        ldc(row_stride(chunk)),
        keys(in, task.b, task.n, chunk),
        query_draws(in.F * ldq),
        key_draws(in.F * ldk),
        q(chunk * ldq),
        q_t(in.Dq * ldc),
        phi_q(in.F * ldc),
        dphi_q(in.F * ldc),
        dphi_k(in.F * ldc),
        v_t(in.Dv * ldc),
        a(chunk * ldc),
        da(chunk * ldc),
        da_t(chunk * ldc),
        g(chunk * ldv),
        g_t(in.Dv * ldc),
        o(chunk * ldv),
        c(ldc),
        dv(chunk * ldv),
        dx(chunk * std::max(ldq, ldk)),
        later_weight(row_stride(in.F)),
        ones(ldc),
        log_sums(ldc),
        columns(ldc),
        later(in.F, in.Dv),
        parameters(in) {
    pack_rows(in.query_draws + task.n * in.F * in.Dq, static_cast<std::ptrdiff_t>(in.Dq), 1,
              nullptr, in.F, in.Dq, query_draws.data(), ldq);
    pack_rows(in.key_draws + task.n * in.F * in.Dk, static_cast<std::ptrdiff_t>(in.Dk), 1, nullptr,
              in.F, in.Dk, key_draws.data(), ldk);
    std::fill(ones.data(), ones.data() + ldc, 1.0F);
  }

  const std::vector<FeatureBlock>& blocks() const { return out.cache->tasks[task.index].blocks; }

  // Only what this task's queries add to the running gradient.
  void sum_queries() {
    for (auto block = blocks().rbegin(); block != blocks().rend(); ++block) {
      later.rescale(block->scale);
      for_each_head(*block, [&](std::size_t h) HWY_ATTR {
        read_queries(*block, h);
        read_gradients(*block, h, false);
        add_to_later(*block);
      });
    }
  }

  // Everything: keys first (they need the gradient of later blocks only), then the queries head by
  // head.
  void run_all() {
    for (auto block = blocks().rbegin(); block != blocks().rend(); ++block) {
      later.rescale(block->scale);
      if (block->keys > 0) {
        begin_keys(*block);
      }
      for_each_head(*block, [&](std::size_t h) HWY_ATTR {
        read_queries(*block, h);
        read_gradients(*block, h, block->keys > 0);
        attend_head(*block, h);
        add_to_later(*block);
      });
      if (block->keys > 0) {
        finish_keys(*block);
      }
    }
  }

  // Queries without keys and keys without queries (non-causal), each in a pass of its own.
  void run_queries() {
    for (auto block = blocks().rbegin(); block != blocks().rend(); ++block) {
      if (block->queries > 0) {
        later.rescale(block->scale);
        for_each_head(*block, [&](std::size_t h) HWY_ATTR {
          read_queries(*block, h);
          read_gradients(*block, h, false);
          attend_head(*block, h);
          add_to_later(*block);
        });
      }
    }
  }

  void run_keys() {
    for (auto block = blocks().rbegin(); block != blocks().rend(); ++block) {
      if (block->keys > 0) {
        later.rescale(block->scale);
        begin_keys(*block);
        finish_keys(*block);
      }
    }
  }

  const FeatureAttentionInputs& in;
  const FeatureAttentionGradients& out;
  FeatureTask task;
  std::size_t chunk, ldq, ldk, ldv, ldc;
  KeyBlock keys;
  AlignedBuffer<float> query_draws, key_draws, q, q_t, phi_q, dphi_q, dphi_k, v_t, a, da, da_t, g,
      g_t, o, c, dv, dx;
  AlignedBuffer<float> later_weight, ones, log_sums;
  QueryColumns columns;
  RunningGradient later;
  ParameterGradients parameters;

 private:
  template <class Body>
  void for_each_head(const FeatureBlock& block, const Body& body) {
    if (block.queries == 0) {
      return;
    }
    const std::size_t shared = in.H / in.N;
    for (std::size_t h = task.n * shared; h < (task.n + 1) * shared; ++h) {
      body(h);
    }
  }

  // The keys' features again, and what later queries give them: dphi_k <- dS v (dz is added at the
  // end), dv <- phi_k dS + mean.
  void begin_keys(const FeatureBlock& block) {
    keys.read(block.key0, block.keys, block.scale_before);
    assert(keys.keys == block.keys && keys.scale == block.scale);
    pack_transposed(keys.v.data(), ldv, block.keys, in.Dv, v_t.data(), ldc);
    tile_product(in.F, block.keys, in.Dv, {later.sum.data(), later.ld, 1}, {v_t.data(), ldc},
                 {dphi_k.data(), ldc, false});
    std::copy(later.weight.data(), later.weight.data() + in.F, later_weight.data());
    for (std::size_t i = 0; i < block.keys; ++i) {
      std::copy(later.mean.data(), later.mean.data() + in.Dv, dv.data() + i * ldv);
    }
    tile_product(block.keys, in.Dv, in.F, {keys.phi_t.data(), 1, ldc}, {later.sum.data(), later.ld},
                 {dv.data(), ldv, true});
  }

  // phi_q^T of one head, and its packed inputs.
  void read_queries(const FeatureBlock& block, std::size_t h) {
    const float* center = in.query_center == nullptr ? nullptr : in.query_center + task.n * in.Dq;
    pack_rows(in.q.row(task.b, h, block.query0), in.q.time, in.q.element, center, block.queries,
              in.Dq, q.data(), ldq);
    pack_transposed(q.data(), ldq, block.queries, in.Dq, q_t.data(), ldc);
    tile_product(in.F, block.queries, in.Dq, {query_draws.data(), ldq, 1}, {q_t.data(), ldc},
                 {phi_q.data(), ldc, false});
    query_features(in.F, block.queries, keys.bias.data(), nullptr, phi_q.data(), ldc, columns);
  }

  // g <- d_o / den, c <- (d_log_z - d_o . o) / den. Rows that fell back give d_o / count to each
  // value they saw instead.
  void read_gradients(const FeatureBlock& block, std::size_t h, bool own_values) {
    std::fill(c.data() + block.queries, c.data() + whole_vectors(block.queries), 0.0F);
    pack_rows(out.d_o.row(task.b, h, block.query0), out.d_o.time, out.d_o.element, nullptr,
              block.queries, in.Dv, g.data(), ldv);
    pack_rows(out.o.row(task.b, h, block.query0), out.o.time, out.o.element, nullptr, block.queries,
              in.Dv, o.data(), ldv);
    const std::size_t first = (task.b * in.H + h) * in.T + block.query0;
    for (std::size_t i = 0; i < block.queries; ++i) {
      float* d_o = g.data() + i * ldv;
      const float den = out.cache->den[first + i];
      const float inverse = den == 0.0F ? 0.0F : 1.0F / den;
      const float d_log_z = out.d_log_z == nullptr ? 0.0F : out.d_log_z[first + i];
      c[i] =
          inverse == 0.0F ? 0.0F : (d_log_z - dot_rows(d_o, o.data() + i * ldv, in.Dv)) * inverse;
      if (den == 0.0F) {
        spread_over_values(block, i, d_o, own_values);
      }
      scale_row(d_o, in.Dv, inverse);
    }
    pack_transposed(g.data(), ldv, block.queries, in.Dv, g_t.data(), ldc);
  }

  void spread_over_values(const FeatureBlock& block,
                          std::size_t i,
                          const float* d_o,
                          bool own_values) {
    const std::size_t own = block.keys > 0 ? i + 1 : 0;
    const auto count = static_cast<float>(block.absorbed + static_cast<std::int64_t>(own));
    for (std::size_t d = 0; d < in.Dv && count > 0.0F; ++d) {
      const float share = d_o[d] / count;
      pending_mean_[d] += share;
      for (std::size_t j = 0; own_values && j < own; ++j) {
        dv[j * ldv + d] += share;
      }
    }
  }

  // later <- later + this head's queries: dS += phi_q^T g, dz += phi_q^T c.
  void add_to_later(const FeatureBlock& block) {
    tile_product(in.F, in.Dv, block.queries, {phi_q.data(), ldc, 1}, {g.data(), ldv},
                 {later.sum.data(), later.ld, true});
    add_weighted_row_sums(in.F, block.queries, phi_q.data(), ldc, c.data(), later.weight.data());
    for (std::size_t d = 0; d < in.Dv; ++d) {
      later.mean[d] += pending_mean_[d];
      pending_mean_[d] = 0.0F;
    }
  }

  void attend_head(const FeatureBlock& block, std::size_t h) {
    if (block.keys > 0) {
      attend_own_keys(block);
    }
    // dlq <- ln 2 phi_q (dphi_q + S g + z c)
    const float* state = out.cache->tasks[task.index].states.data() + block.state;
    tile_product(in.F, block.queries, in.Dv, {state, in.Dv, 1}, {g_t.data(), ldc},
                 {dphi_q.data(), ldc, block.keys > 0});
    log_gradients(in.F, block.queries, phi_q.data(), state + in.F * in.Dv, c.data(), ldc,
                  dphi_q.data(), log_sums.data());
    // dq <- dlq Wq, dWq <- dWq + dlq^T q
    tile_product(block.queries, in.Dq, in.F, {dphi_q.data(), 1, ldc}, {query_draws.data(), ldq},
                 {dx.data(), ldq, false});
    for (std::size_t i = 0; i < block.queries; ++i) {
      const float* row = dx.data() + i * ldq;
      std::copy(row, row + in.Dq, out.dq + ((task.b * in.H + h) * in.T + block.query0 + i) * in.Dq);
    }
    if (out.d_query_draws != nullptr) {
      tile_product(in.F, in.Dq, block.queries, {dphi_q.data(), ldc, 1}, {q.data(), ldq},
                   {parameters.query_draws.data(), ldq, true});
    }
    if (out.d_bias != nullptr) {
      add_row_sums(in.F, block.queries, dphi_q.data(), ldc, parameters.bias.data());
    }
  }

  // The triangle of the block itself.
  void attend_own_keys(const FeatureBlock& block) {
    const std::size_t rows = block.queries;
    // A <- tril(phi_q phi_k^T), dv <- dv + A^T g
    lower_product(rows, in.F, {phi_q.data(), 1, ldc}, {keys.phi_t.data(), ldc}, a.data(), ldc);
    clear_upper(rows, kTileRows, a.data(), ldc, nullptr, nullptr);
    add_lower_transposed_times(rows, in.Dv, a.data(), ldc, {g.data(), ldv}, dv.data(), ldv);
    // dA <- tril(g v^T + c)
    lower_product(rows, in.Dv, {g.data(), ldv, 1}, {v_t.data(), ldc}, da.data(), ldc);
    clear_upper(rows, triangle_block(), da.data(), ldc, c.data(), nullptr);
    transpose_lower(rows);
    // dphi_k <- dphi_k + phi_q dA, dphi_q <- phi_k dA^T
    times_lower(in.F, rows, {phi_q.data(), ldc, 1}, da.data(), ldc, {dphi_k.data(), ldc, true});
    times_lower_transposed(in.F, rows, {keys.phi_t.data(), ldc, 1}, da_t.data(), ldc,
                           {dphi_q.data(), ldc, false});
  }

  // da_t <- dA^T, square block by square block.
  void transpose_lower(std::size_t rows) {
    const std::size_t block = triangle_block();
    for (std::size_t i = 0; i < rows; i += block) {
      const std::size_t end = std::min(i + block, rows);
      transpose(end - i, end, da.data() + i * ldc, ldc, da_t.data() + i, ldc);
    }
  }

  // From dphi_k to the keys and their parameters.
  void finish_keys(const FeatureBlock& block) {
    log_gradients(in.F, block.keys, keys.phi_t.data(), later_weight.data(), ones.data(), ldc,
                  dphi_k.data(), log_sums.data());
    tile_product(block.keys, in.Dk, in.F, {dphi_k.data(), 1, ldc}, {key_draws.data(), ldk},
                 {dx.data(), ldk, false});
    const std::size_t first = (task.b * in.N + task.n) * in.S + block.key0;
    for (std::size_t i = 0; i < block.keys; ++i) {
      float* dk = dx.data() + i * ldk;
      add_offset_gradient(i, dk);
      std::copy(dk, dk + in.Dk, out.dk + (first + i) * in.Dk);
      std::copy(dv.data() + i * ldv, dv.data() + i * ldv + in.Dv, out.dv + (first + i) * in.Dv);
    }
    if (out.d_key_slope != nullptr) {  // dslope <- dslope + sum_s doffset_s k'_s
      tile_product(1, in.Dk, block.keys, {log_sums.data(), 1, 1}, {keys.k.data(), ldk},
                   {parameters.key_slope.data(), ldk, true});
    }
    if (out.d_key_draws != nullptr) {
      tile_product(in.F, in.Dk, block.keys, {dphi_k.data(), ldc, 1}, {keys.k.data(), ldk},
                   {parameters.key_draws.data(), ldk, true});
    }
    if (out.d_bias != nullptr) {
      add_row_sums(in.F, block.keys, dphi_k.data(), ldc, parameters.bias.data());
    }
  }

  // The offset slope . k' - curve |k'|^2 is in every logarithm of a key: its gradient is their sum.
  void add_offset_gradient(std::size_t i, float* dk) const {
    const FloatTag d;
    const auto offset = hn::Set(d, log_sums[i]), curve = hn::Set(d, -2.0F * in.key_curve);
    const float* k = keys.k.data() + i * ldk;
    const float* slope = in.key_slope == nullptr ? nullptr : in.key_slope + task.n * in.Dk;
    std::size_t r = 0;
    for (; r + hn::Lanes(d) <= in.Dk; r += hn::Lanes(d)) {
      const auto along = slope == nullptr ? hn::Zero(d) : hn::LoadU(d, slope + r);
      const auto gradient = hn::MulAdd(curve, hn::LoadU(d, k + r), along);
      hn::StoreU(hn::MulAdd(offset, gradient, hn::LoadU(d, dk + r)), d, dk + r);
    }
    for (; r < in.Dk; ++r) {
      dk[r] += log_sums[i] * ((slope == nullptr ? 0.0F : slope[r]) - 2.0F * in.key_curve * k[r]);
    }
  }

  std::vector<float> pending_mean_ = std::vector<float>(in.Dv, 0.0F);
};

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_FEATURE_BACKWARD_WALK_INL_H_
