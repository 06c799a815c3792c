// Forward pass of exact attention for many queries: one block of queries at a time against all the
// blocks of keys that it sees.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/exact_attention_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/exact_attention_forward.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/exact_attention_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// Below every score: a query that saw no key yet. Finite, so that no difference is NaN.
inline constexpr float kNoMaximum = -1e30F;

// Running softmax of a block: o is not yet divided by the sum.
struct Running {
  float* maximum;  // (kQueryBlock), base 2
  float* sum;      // (kQueryBlock)
  float* decay;    // (kQueryBlock), of the last block
  float* o;        // (kQueryBlock, ld)
  std::size_t ld;
};

struct ForwardScratch {
  ForwardScratch(const ExactAttention& a, float* memory) : pieces(memory) {
    q_panels = pieces.take(kQueryBlock * a.D);
    scores = pieces.take(kKeyBlock * kQueryBlock);
    k_spare = pieces.take(kKeyBlock * padded_columns(a.D));
    v_spare = pieces.take(kKeyBlock * padded_columns(a.Dv));
    running.maximum = pieces.take(kQueryBlock);
    running.sum = pieces.take(kQueryBlock);
    running.decay = pieces.take(kQueryBlock);
    running.ld = round_up(a.Dv, 16);
    running.o = pieces.take(kQueryBlock * running.ld);
  }
  Pieces pieces;
  float *q_panels, *scores, *k_spare, *v_spare;
  Running running;
};

std::size_t forward_scratch_size(const ExactAttention& a) {
  return ForwardScratch(a, nullptr).pieces.used();
}

void reset(const Running& r, std::size_t rows) {
  std::fill_n(r.maximum, kQueryBlock, kNoMaximum);
  std::fill_n(r.sum, kQueryBlock, 0.0F);
  std::fill_n(r.o, rows * r.ld, 0.0F);
}

// max over the keys, for the two vectors of a panel, on two independent chains each.
HWY_INLINE void panel_maximum(const float* s, std::size_t keys, FloatsV& top0, FloatsV& top1) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  FloatsV other0 = top0;
  FloatsV other1 = top1;
  std::size_t j = 0;
  for (; j + 2 <= keys; j += 2, s += 2 * kQueryBlock) {
    top0 = hn::Max(top0, hn::LoadU(d, s));
    top1 = hn::Max(top1, hn::LoadU(d, s + lanes));
    other0 = hn::Max(other0, hn::LoadU(d, s + kQueryBlock));
    other1 = hn::Max(other1, hn::LoadU(d, s + kQueryBlock + lanes));
  }
  if (j < keys) {
    top0 = hn::Max(top0, hn::LoadU(d, s));
    top1 = hn::Max(top1, hn::LoadU(d, s + lanes));
  }
  top0 = hn::Max(top0, other0);
  top1 = hn::Max(top1, other1);
}

// s <- 2^(s - top), sum <- column sums of it
HWY_INLINE void panel_exp(
    float* s, std::size_t keys, FloatsV top0, FloatsV top1, FloatsV& sum0, FloatsV& sum1) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  sum0 = sum1 = hn::Zero(d);
  for (std::size_t j = 0; j < keys; ++j, s += kQueryBlock) {
    const FloatsV p0 = exp2_flushed(d, hn::Sub(hn::LoadU(d, s), top0));
    const FloatsV p1 = exp2_flushed(d, hn::Sub(hn::LoadU(d, s + lanes), top1));
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
    hn::StoreU(p0, d, s);
    hn::StoreU(p1, d, s + lanes);
  }
}

// decay <- 2^(old - top), sum <- decay sum + added, maximum <- top
HWY_INLINE void update(const Running& r, std::size_t at, FloatsV top, FloatsV added) {
  const Floats d;
  const FloatsV decay = exp2_flushed(d, hn::Sub(hn::LoadU(d, r.maximum + at), top));
  hn::StoreU(decay, d, r.decay + at);
  hn::StoreU(hn::MulAdd(decay, hn::LoadU(d, r.sum + at), added), d, r.sum + at);
  hn::StoreU(top, d, r.maximum + at);
}

// s <- 2^(s - m) with m the new running maximum of each query; the sums follow.
void fold_scores(const Running& r, std::size_t panels, std::size_t keys, float* s) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t at = 0; at < panels * 2 * lanes; at += 2 * lanes) {
    FloatsV top0 = hn::LoadU(d, r.maximum + at);
    FloatsV top1 = hn::LoadU(d, r.maximum + at + lanes);
    FloatsV sum0;
    FloatsV sum1;
    panel_maximum(s + at, keys, top0, top1);
    panel_exp(s + at, keys, top0, top1, sum0, sum1);
    update(r, at, top0, sum0);
    update(r, at + lanes, top1, sum1);
  }
}

// o[i] <- decay[i] o[i]
void apply_decay(const Running& r, std::size_t rows) {
  const Floats d;
  for (std::size_t i = 0; i < rows; ++i) {
    if (r.decay[i] != 1.0F) {
      const auto factor = hn::Set(d, r.decay[i]);
      for (std::size_t c = 0; c < r.ld; c += hn::Lanes(d)) {
        float* o = r.o + i * r.ld + c;
        hn::StoreU(hn::Mul(factor, hn::LoadU(d, o)), d, o);
      }
    }
  }
}

// o <- o / sum, lse <- m ln 2 + log sum
void write_result(const ForwardJob& job, const Running& r) {
  for (std::size_t i = 0; i < job.queries.size(); ++i) {
    const std::size_t t = job.queries.begin + i;
    const bool blind = r.sum[i] == 0.0F;
    const float inverse = blind ? 0.0F : 1.0F / r.sum[i];
    float* o = job.o.row(t);
    for (std::size_t d = 0; d < job.shape->Dv; ++d) {
      // + 0 turns -0 into 0: whether a masked key's zero was added must not show.
      o[static_cast<std::ptrdiff_t>(d) * job.o.element] = r.o[i * r.ld + d] * inverse + 0.0F;
    }
    if (job.lse.data != nullptr) {
      *job.lse.row(t) = blind ? -kInfinity : log_sum(r.maximum[i], r.sum[i]);
    }
  }
}

void forward_block(const ForwardJob& job, float* memory) {
  const ExactAttention& a = *job.shape;
  const Visibility mask(a);
  const ScoreFactors scoring = score_factors(a);
  const ForwardScratch scratch(a, memory);
  const Running& running = scratch.running;
  const std::size_t rows = job.queries.size();
  pack_panels(job.q.from(job.queries.begin), rows, a.D, scoring.pack, scratch.q_panels);
  reset(running, rows);
  for_each_key_block(mask, job.queries, a.S, [&](Range keys) {
    const Block block{job.queries, keys};
    const TileRight k = tile_rows_of(job.k.from(keys.begin), keys.size(), a.D, scratch.k_spare);
    const TileRight v = tile_rows_of(job.v.from(keys.begin), keys.size(), a.Dv, scratch.v_spare);
    // S <- K Q^T, P <- 2^(S - m), O <- decay O + P V
    score_block(mask, scoring, a.D, block, k, scratch.q_panels, scratch.scores);
    fold_scores(running, panel_count(job.queries), keys.size(), scratch.scores);
    apply_decay(running, rows);
    add_over_keys(mask, block, a.Dv, scratch.scores, v, {running.o, running.ld, true});
  });
  write_result(job, running);
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {

HWY_EXPORT(forward_scratch_size);
HWY_EXPORT(forward_block);

}  // namespace

void forward_blocks(const ExactAttention& a,
                    const AttentionInputs& in,
                    const AttentionOutputs& out) {
  const std::size_t blocks = (a.T + kQueryBlock - 1) / kQueryBlock;
  const std::size_t needed = HWY_DYNAMIC_DISPATCH(forward_scratch_size)(a);
  parallel_for(a.B * a.H * blocks, [&](std::size_t task) {
    const std::size_t b = task / (a.H * blocks);
    const std::size_t h = task / blocks % a.H;
    const std::size_t g = h / (a.H / a.G);
    // The last queries see most keys: they come first, so that threads end together.
    const std::size_t begin = (blocks - 1 - task % blocks) * kQueryBlock;
    const ForwardJob job{&a,
                         {begin, std::min(begin + kQueryBlock, a.T)},
                         rows_of(in.q, b, h),
                         rows_of(in.k, b, g),
                         rows_of(in.v, b, g),
                         rows_of(out.o, b, h),
                         out.lse ? rows_of(out.lse, b, h) : HeadRowsOut{nullptr, 0, 0}};
    HWY_DYNAMIC_DISPATCH(forward_block)(job, thread_scratch(needed));
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
