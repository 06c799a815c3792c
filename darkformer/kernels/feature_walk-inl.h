// The walk over the keys of one (batch, parameter group), block by block, with its running state;
// shared by forward and backward.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_FEATURE_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_FEATURE_WALK_INL_H_
#undef DARKFORMER_KERNELS_FEATURE_WALK_INL_H_
#else
#define DARKFORMER_KERNELS_FEATURE_WALK_INL_H_
#endif

#include "darkformer/kernels/feature_triangle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {

// Asks for the first D values of each row ahead of their use. kWrite: they will be overwritten.
template <bool kWrite>
HWY_INLINE void prefetch_rows(const float* src,
                              std::ptrdiff_t time,
                              std::ptrdiff_t element,
                              std::size_t rows,
                              std::size_t D) {
  constexpr std::size_t kLine = 16;  // floats
  if (element != 1) {
    return;
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t d = 0; d < D; d += kLine) {
      __builtin_prefetch(src + static_cast<std::ptrdiff_t>(i) * time + d, kWrite ? 1 : 0, 2);
    }
  }
}

// The sums over the keys absorbed so far, in units of 2^scale, with padded rows.
struct RunningState {
  RunningState(std::size_t features, std::size_t values)
      : F(features),
        Dv(values),
        ld(row_stride(values)),
        sum(F * ld),
        weight(row_stride(F)),
        value_sum(ld) {
    clear();
  }

  void clear() {
    std::fill(sum.data(), sum.data() + F * ld, 0.0F);
    std::fill(weight.data(), weight.data() + row_stride(F), 0.0F);
    std::fill(value_sum.data(), value_sum.data() + ld, 0.0F);
    scale = kNoScale;
    absorbed = 0;
  }

  // Units of 2^next from now on. `first` is the running scale at the first query that sees this
  // state: a feature that has sunk below 2^-100 of it is dropped now, by a rule that knows nothing
  // of later keys, so that the rest can be scaled exactly.
  void rescale(std::int32_t next, std::int32_t first) {
    if (scale == next) {
      return;
    }
    const float factor = scale == kNoScale ? 0.0F : std::ldexp(1.0F, std::max(scale - next, -300));
    const float lowest = std::ldexp(1.0F, std::max(first - next, -300) - 100);
    for (std::size_t f = 0; f < F; ++f) {
      const bool keep = !(weight[f] * factor < lowest);
      weight[f] = keep ? weight[f] * factor : 0.0F;
      scale_row(sum.data() + f * ld, Dv, keep ? factor : 0.0F);
    }
    scale = next;
  }

  std::size_t F, Dv, ld;
  AlignedBuffer<float> sum, weight, value_sum;
  std::int32_t scale = kNoScale;
  std::int64_t absorbed = 0;
};

// Keys and values of one block, packed, with the keys' features.
struct KeyBlock {
  KeyBlock(const FeatureAttentionInputs& inputs,
           std::size_t batch,
           std::size_t group,
           std::size_t most)
      : in(inputs),
        b(batch),
        n(group),
        ldk(row_stride(in.Dk)),
        ldv(row_stride(in.Dv)),
        ldc(row_stride(most)),
        k(most * ldk),
        k_t(in.Dk * ldc),
        v(most * ldv),
        phi_t(in.F * ldc),
        bias(in.F),
        offset(ldc),
        top(ldc),
        scales(ldc),
        lowest(ldc),
        unit(ldc) {
    for (std::size_t f = 0; f < in.F; ++f) {
      bias[f] = in.bias == nullptr ? 0.0F : in.bias[n * in.F + f];
    }
  }

  // Reads up to `most` keys from key0 on and featurises as many as fit one scale; sets keys and
  // scale. `before` is the running scale.
  void read(std::size_t key0, std::size_t most, std::int32_t before) {
    pack(key0, most);
    offset_columns(most);
    tile_product(in.F, most, in.Dk, {in.key_draws + n * in.F * in.Dk, in.Dk, 1}, {k_t.data(), ldc},
                 {phi_t.data(), ldc, false});
    const FeatureColumns columns = {bias.data(), offset.data(), lowest.data(), unit.data()};
    column_tops(in.F, most, columns, phi_t.data(), ldc, top.data());
    integer_scales(most, top.data(), scales.data());
    choose_scale(most, before);
    features_by_column<false>(in.F, keys, columns, phi_t.data(), ldc, nullptr, nullptr);
  }

  // The vectors of columns that hold this block's keys.
  std::size_t columns() const { return whole_vectors(keys); }

  const FeatureAttentionInputs& in;
  std::size_t b, n;
  std::size_t ldk, ldv, ldc;
  AlignedBuffer<float> k, k_t, v;  // (keys,Dk), (Dk,keys), (keys,Dv)
  AlignedBuffer<float> phi_t;      // (F,keys)
  AlignedBuffer<float> bias, offset, top, scales, lowest, unit;
  std::size_t keys = 0;
  std::int32_t scale = kNoScale,
               first = kNoScale;  // the block's scale; the running scale at its first key

 private:
  void pack(std::size_t key0, std::size_t count) {
    const std::size_t key_head = n * in.key_heads / in.N, value_head = n * in.value_heads / in.N;
    const std::size_t next = key0 + count, ahead = std::min(count, in.S - next);
    prefetch_rows<false>(in.k.row(b, key_head, next), in.k.time, in.k.element, ahead, in.Dk);
    prefetch_rows<false>(in.v.row(b, value_head, next), in.v.time, in.v.element, ahead, in.Dv);
    const float* center = in.key_center == nullptr ? nullptr : in.key_center + key_head * in.Dk;
    pack_rows(in.k.row(b, key_head, key0), in.k.time, in.k.element, center, count, in.Dk, k.data(),
              ldk);
    pack_rows(in.v.row(b, value_head, key0), in.v.time, in.v.element, nullptr, count, in.Dv,
              v.data(), ldv);
    pack_transposed(k.data(), ldk, count, in.Dk, k_t.data(), ldc);
  }

  // offset[i] <- slope . k'_i - curve |k'_i|^2
  void offset_columns(std::size_t count) {
    const FloatTag d;
    const float* slope = in.key_slope == nullptr ? nullptr : in.key_slope + n * in.Dk;
    for_column_blocks(count, [&]<std::size_t kVectors>(std::size_t i) HWY_ATTR {
      hn::Vec<FloatTag> along[kVectors], norm[kVectors];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        along[j] = norm[j] = hn::Zero(d);
      }
      for (std::size_t r = 0; r < in.Dk; ++r) {
        const auto by = hn::Set(d, slope == nullptr ? 0.0F : slope[r]);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < kVectors; ++j) {
          const auto key = hn::LoadU(d, k_t.data() + r * ldc + i + j * hn::Lanes(d));
          along[j] = hn::MulAdd(key, by, along[j]);
          norm[j] = hn::MulAdd(key, key, norm[j]);
        }
      }
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        hn::StoreU(hn::NegMulAdd(hn::Set(d, in.key_curve), norm[j], along[j]), d,
                   offset.data() + i + j * hn::Lanes(d));
      }
    });
  }

  // The running scale after each key; the block ends before the key that would raise it by more
  // than kRise.
  void choose_scale(std::size_t most, std::int32_t before) {
    std::int32_t running = before;
    for (keys = 0; keys < most; ++keys) {
      const std::int32_t next = std::max(running, static_cast<std::int32_t>(scales[keys]));
      if (keys == 0) {
        first = next;
      } else if (next > first + kRise) {
        break;
      }
      running = next;
      lowest[keys] = static_cast<float>(running) - kKeyRange;
    }
    scale = running;
    std::fill(lowest.data() + keys, lowest.data() + columns(),
              std::numeric_limits<float>::infinity());
    std::fill(unit.data(), unit.data() + columns(), static_cast<float>(scale));
  }
};

// state <- state + the block: S <- S + phi_k^T v, z <- z + sum phi_k. The state is in the block's
// units already.
HWY_INLINE void absorb(const KeyBlock& block, RunningState& state) {
  tile_product(state.F, state.Dv, block.keys, {block.phi_t.data(), block.ldc, 1},
               {block.v.data(), block.ldv}, {state.sum.data(), state.ld, true});
  add_row_sums(state.F, block.columns(), block.phi_t.data(), block.ldc, state.weight.data());
  add_column_sums(block.keys, state.Dv, block.v.data(), block.ldv, state.value_sum.data());
  state.absorbed += static_cast<std::int64_t>(block.keys);
}

// state <- state + other, in the larger of the two units.
inline void add_state(const RunningState& other, RunningState& state) {
  if (other.absorbed == 0) {
    return;
  }
  const std::int32_t scale = std::max(state.scale, other.scale);
  RunningState scaled = RunningState(other.F, other.Dv);
  std::copy(other.sum.data(), other.sum.data() + other.F * other.ld, scaled.sum.data());
  std::copy(other.weight.data(), other.weight.data() + other.F, scaled.weight.data());
  scaled.scale = other.scale;
  scaled.rescale(scale, scale);
  state.rescale(scale, scale);
  for (std::size_t i = 0; i < state.F * state.ld; ++i) {
    state.sum[i] += scaled.sum[i];
  }
  for (std::size_t f = 0; f < state.F; ++f) {
    state.weight[f] += scaled.weight[f];
  }
  for (std::size_t d = 0; d < state.Dv; ++d) {
    state.value_sum[d] += other.value_sum[d];
  }
  state.absorbed += other.absorbed;
}

inline void load_state(const FeatureAttentionInputs& in,
                       const FeatureState& from,
                       std::size_t problem,
                       RunningState& to) {
  to.clear();
  if (from.absorbed == 0) {
    return;
  }
  for (std::size_t f = 0; f < in.F; ++f) {
    const float* row = from.sum + (problem * in.F + f) * in.Dv;
    std::copy(row, row + in.Dv, to.sum.data() + f * to.ld);
  }
  std::copy(from.weight + problem * in.F, from.weight + (problem + 1) * in.F, to.weight.data());
  std::copy(from.value_sum + problem * in.Dv, from.value_sum + (problem + 1) * in.Dv,
            to.value_sum.data());
  to.scale = static_cast<std::int32_t>(from.scale[problem]);
  to.absorbed = from.absorbed;
}

inline void store_state(const FeatureAttentionInputs& in,
                        const RunningState& from,
                        std::size_t problem,
                        FeatureState& to) {
  for (std::size_t f = 0; f < in.F; ++f) {
    const float* row = from.sum.data() + f * from.ld;
    std::copy(row, row + in.Dv, to.sum + (problem * in.F + f) * in.Dv);
  }
  std::copy(from.weight.data(), from.weight.data() + in.F, to.weight + problem * in.F);
  std::copy(from.value_sum.data(), from.value_sum.data() + in.Dv, to.value_sum + problem * in.Dv);
  to.scale[problem] =
      from.absorbed > 0 ? static_cast<float>(from.scale) : -std::numeric_limits<float>::infinity();
}

inline RunningState copy_of(const RunningState& from) {
  RunningState copy(from.F, from.Dv);
  add_state(from, copy);
  return copy;
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_FEATURE_WALK_INL_H_
