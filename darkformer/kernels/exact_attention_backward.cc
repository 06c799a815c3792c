// Backward pass of exact attention: probabilities are recomputed by blocks from lse; dq is summed
// per block of queries, dk and dv per task and then over the tasks in order.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/exact_attention_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/exact_attention_backward.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/exact_attention_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

struct BackwardScratch {
  BackwardScratch(const ExactAttention& a, float* memory) : pieces(memory) {
    q_panels = pieces.take(kQueryBlock * a.D);
    d_o_panels = pieces.take(kQueryBlock * a.Dv);
    scores = pieces.take(kKeyBlock * kQueryBlock);
    d_scores = pieces.take(kKeyBlock * kQueryBlock);
    k_spare = pieces.take(kKeyBlock * padded_columns(a.D));
    v_spare = pieces.take(kKeyBlock * padded_columns(a.Dv));
    q_spare = pieces.take(kQueryBlock * padded_columns(a.D));
    o_spare = pieces.take(kQueryBlock * padded_columns(a.Dv));
    d_o_spare = pieces.take(kQueryBlock * padded_columns(a.Dv));
    lse = pieces.take(kQueryBlock);
    delta = pieces.take(kQueryBlock);
    dq = pieces.take(kQueryBlock * round_up(a.D, 16));
  }
  Pieces pieces;
  float *q_panels, *d_o_panels, *scores, *d_scores;
  float *k_spare, *v_spare, *q_spare, *o_spare, *d_o_spare;
  float *lse, *delta, *dq;
};

std::size_t backward_scratch_size(const ExactAttention& a) {
  return BackwardScratch(a, nullptr).pieces.used();
}

// One block of queries, ready to meet keys.
struct QuerySide {
  Range queries;
  TileRight q, d_o;
};

float dot_rows(const float* x, const float* y, std::size_t count) {
  const Floats d;
  FloatsV sum = hn::Zero(d);
  for (std::size_t c = 0; c < count; c += hn::Lanes(d)) {
    sum = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, y + c), sum);
  }
  return sum_of_lanes(d, sum);
}

// delta_i <- do_i.o_i - dlse_i and lse_i in base 2; zero for lanes without a query.
void prepare_rows(const BackwardJob& job, const QuerySide& side, const BackwardScratch& scratch) {
  constexpr float kLog2E = 1.44269504F;
  const std::size_t rows = side.queries.size();
  const std::size_t Dv = job.shape->Dv;
  const TileRight o = whole_rows(job.o.from(side.queries.begin), rows, Dv, scratch.o_spare);
  std::fill_n(scratch.lse, kQueryBlock, 0.0F);
  std::fill_n(scratch.delta, kQueryBlock, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t t = side.queries.begin + i;
    const float lse = *job.lse.row(t);
    // A query that saw no key: all its scores are masked, any finite lse will do.
    scratch.lse[i] = lse == -kInfinity ? 0.0F : lse * kLog2E;
    const float d_lse = job.d_lse.data == nullptr ? 0.0F : *job.d_lse.row(t);
    scratch.delta[i] = dot_rows(from_row(side.d_o, i).data, from_row(o, i).data, Dv) - d_lse;
  }
}

QuerySide load_queries(const BackwardJob& job, Range queries, const BackwardScratch& scratch) {
  const ExactAttention& a = *job.shape;
  const HeadRows q = job.q.from(queries.begin);
  const HeadRows d_o = job.d_o.from(queries.begin);
  const std::size_t rows = queries.size();
  pack_panels(q, rows, a.D, score_factors(a).pack, scratch.q_panels);
  pack_panels(d_o, rows, a.Dv, 1.0F, scratch.d_o_panels);
  const QuerySide side{queries, tile_rows_of(q, rows, a.D, scratch.q_spare),
                       tile_rows_of(d_o, rows, a.Dv, scratch.d_o_spare)};
  prepare_rows(job, side, scratch);
  return side;
}

// In: base-2 scores s and dP. Out, in their places: P = 2^(s - lse) and
// dX = P (dP - delta) ds/dx, where ds/dx = 1 - (s / cap)^2 with a soft-cap.
template <bool kCapped>
void probabilities_and_gradients(
    float cap, const float* lse, const float* delta, std::size_t keys, float* s, float* dp) {
  const Floats d;
  const auto lse_row = hn::LoadU(d, lse);
  const auto delta_row = hn::LoadU(d, delta);
  for (std::size_t j = 0; j < keys; ++j, s += kQueryBlock, dp += kQueryBlock) {
    const auto score = hn::LoadU(d, s);
    const auto p = exp2_flushed(d, hn::Sub(score, lse_row));
    auto dx = hn::Mul(p, hn::Sub(hn::LoadU(d, dp), delta_row));
    if constexpr (kCapped) {
      // The maximum keeps masked scores (-infinity) from making 0 * infinity.
      const auto t = hn::Mul(hn::Max(score, hn::Set(d, -cap)), hn::Set(d, 1.0F / cap));
      dx = hn::Mul(dx, hn::NegMulAdd(t, t, hn::Set(d, 1.0F)));
    }
    hn::StoreU(p, d, s);
    hn::StoreU(dx, d, dp);
  }
}

// P and dX of a block, both (keys, queries); zero where not visible.
void score_gradients(const Visibility& mask,
                     const ExactAttention& a,
                     Block block,
                     TileRight v,
                     const BackwardScratch& scratch) {
  const std::size_t lanes = hn::Lanes(Floats());
  const std::size_t width = panel_width();
  const float cap = score_factors(a).cap;
  for (std::size_t p = 0; p < panel_count(block.queries); ++p) {
    const Range part = mask.seen(panel_queries(block.queries, p), block.keys);
    float* s = scratch.scores + p * width;
    float* dp = scratch.d_scores + p * width;
    fill_unseen(s, block.keys, part, 0.0F);
    fill_unseen(dp, block.keys, part, 0.0F);
    if (part.empty()) {
      continue;
    }
    const std::size_t skipped = part.begin - block.keys.begin;
    s += skipped * kQueryBlock;
    dp += skipped * kQueryBlock;
    // dP <- V dO^T
    tile_product(part.size(), width, a.Dv, as_left(from_row(v, skipped)),
                 {scratch.d_o_panels + p * a.Dv * width, width}, {dp, kQueryBlock, false});
    const auto finish =
        cap > 0.0F ? &probabilities_and_gradients<true> : &probabilities_and_gradients<false>;
    for (std::size_t c = 0; c < width; c += lanes) {
      const std::size_t at = p * width + c;
      finish(cap, scratch.lse + at, scratch.delta + at, part.size(), s + c, dp + c);
    }
  }
}

void backward_block(const BackwardJob& job,
                    const QuerySide& side,
                    Range keys,
                    const BackwardScratch& scratch) {
  const ExactAttention& a = *job.shape;
  const Visibility mask(a);
  const Block block{side.queries, keys};
  const std::size_t k_ld = round_up(a.D, 16);
  const std::size_t v_ld = round_up(a.Dv, 16);
  const std::size_t at = keys.begin - job.keys.begin;
  const TileRight k = tile_rows_of(job.k.from(keys.begin), keys.size(), a.D, scratch.k_spare);
  const TileRight v = tile_rows_of(job.v.from(keys.begin), keys.size(), a.Dv, scratch.v_spare);
  score_block(mask, score_factors(a), a.D, block, k, scratch.q_panels, scratch.scores);
  score_gradients(mask, a, block, v, scratch);
  // dV <- dV + P^T dO,  dK <- dK + dX^T Q,  dQ <- dQ + dX K
  add_over_queries(mask, block, a.Dv, scratch.scores, side.d_o, {job.dv + at * v_ld, v_ld, true});
  add_over_queries(mask, block, a.D, scratch.d_scores, side.q, {job.dk + at * k_ld, k_ld, true});
  add_over_keys(mask, block, a.D, scratch.d_scores, k, {scratch.dq, k_ld, true});
}

void write_dq(const BackwardJob& job, Range queries, const float* dq) {
  const ExactAttention& a = *job.shape;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    float* out = job.dq.row(queries.begin + i);
    for (std::size_t d = 0; d < a.D; ++d) {
      out[static_cast<std::ptrdiff_t>(d) * job.dq.element] =
          a.scale * dq[i * round_up(a.D, 16) + d];
    }
  }
}

void backward_queries(const BackwardJob& job, float* memory) {
  const ExactAttention& a = *job.shape;
  const BackwardScratch scratch(a, memory);
  std::fill_n(job.dk, job.keys.size() * round_up(a.D, 16), 0.0F);
  std::fill_n(job.dv, job.keys.size() * round_up(a.Dv, 16), 0.0F);
  for (std::size_t begin = job.queries.begin; begin < job.queries.end; begin += kQueryBlock) {
    const Range queries{begin, std::min(begin + kQueryBlock, job.queries.end)};
    const QuerySide side = load_queries(job, queries, scratch);
    std::fill_n(scratch.dq, queries.size() * round_up(a.D, 16), 0.0F);
    for_each_key_block(Visibility(a), queries, a.S,
                       [&](Range keys) { backward_block(job, side, keys, scratch); });
    write_dq(job, queries, scratch.dq);
  }
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {

HWY_EXPORT(backward_scratch_size);
HWY_EXPORT(backward_queries);

// How the queries of one (batch, kv head) are cut into tasks: each query head, and each of these
// into chunks where the heads alone are few. By the shape alone, never by the number of threads:
// the sums of dk and dv follow it. T > 0.
struct Cut {
  explicit Cut(const ExactAttention& a) : heads(a.H / a.G) {
    constexpr std::size_t kWantedTasks = 8;
    constexpr std::size_t kShortestChunk = 1024;  // shorter ones cost more in sums than they gain
    const std::size_t wanted = (kWantedTasks + a.B * a.H - 1) / (a.B * a.H);
    const std::size_t most = std::max<std::size_t>(1, a.T / kShortestChunk);
    const std::size_t parts = std::min(wanted, most);
    chunk = round_up((a.T + parts - 1) / parts, kQueryBlock);
    chunks = (a.T + chunk - 1) / chunk;
    std::size_t longest = 0;
    for (std::size_t c = 0; c < chunks; ++c) {
      longest = std::max(longest, keys(a, c).size());
    }
    dk_size = longest * round_up(a.D, 16);
    dv_size = longest * round_up(a.Dv, 16);
  }
  std::size_t tasks() const { return heads * chunks; }
  std::size_t slot_size() const { return dk_size + dv_size; }
  Range queries(const ExactAttention& a, std::size_t c) const {
    return {c * chunk, std::min((c + 1) * chunk, a.T)};
  }
  Range keys(const ExactAttention& a, std::size_t c) const {
    const Range seen = Visibility(a).seen(queries(a, c), {0, a.S});
    return seen.empty() ? Range{} : seen;
  }
  std::size_t heads, chunk, chunks, dk_size, dv_size;
};

struct Backward {
  const ExactAttention& a;
  const AttentionInputs& in;
  const AttentionSaved& saved;
  const AttentionGradients& out;
  Cut cut;

  // Task `task` of kv head `group` = b G + g, with its sums in `slot`.
  BackwardJob job(std::size_t group, std::size_t task, float* slot) const {
    const std::size_t b = group / a.G;
    const std::size_t g = group % a.G;
    const std::size_t h = g * cut.heads + task / cut.chunks;
    const std::size_t c = task % cut.chunks;
    return {&a,
            cut.queries(a, c),
            cut.keys(a, c),
            rows_of(in.q, b, h),
            rows_of(in.k, b, g),
            rows_of(in.v, b, g),
            rows_of(saved.o, b, h),
            rows_of(saved.lse, b, h),
            rows_of(saved.d_o, b, h),
            saved.d_lse ? rows_of(saved.d_lse, b, h) : HeadRows{nullptr, 0, 0},
            rows_of(out.dq, b, h),
            slot,
            slot + cut.dk_size};
  }
};

// The sums of one kv head: D columns of each key, one matrix in each task's slot.
struct TaskSums {
  const float* first;
  std::size_t columns;
};

// out[j] <- factor * sum over the tasks of their row for key j, in the order of the tasks
void sum_tasks(const Backward& work,
               TaskSums sums,
               std::size_t j,
               float factor,
               float* out,
               std::ptrdiff_t step) {
  float* total = thread_scratch(sums.columns);
  std::fill_n(total, sums.columns, 0.0F);
  for (std::size_t task = 0; task < work.cut.tasks(); ++task) {
    const Range keys = work.cut.keys(work.a, task % work.cut.chunks);
    if (j >= keys.begin && j < keys.end) {
      const float* row =
          sums.first + task * work.cut.slot_size() + (j - keys.begin) * round_up(sums.columns, 16);
      std::transform(row, row + sums.columns, total, total, std::plus<>());
    }
  }
  for (std::size_t d = 0; d < sums.columns; ++d) {
    out[static_cast<std::ptrdiff_t>(d) * step] = factor * total[d];
  }
}

// The kv heads [first, first + groups), whose task sums fit into `slots`.
void backward_wave(const Backward& work, std::size_t first, std::size_t groups, float* slots) {
  const Cut& cut = work.cut;
  const ExactAttention& a = work.a;
  const std::size_t needed = HWY_DYNAMIC_DISPATCH(backward_scratch_size)(a);
  parallel_for(groups * cut.tasks(), [&](std::size_t i) {
    // The last chunk sees most keys: first, so that threads end together.
    const std::size_t task = cut.tasks() - 1 - i / groups;
    const std::size_t group = i % groups;
    float* slot = slots + (group * cut.tasks() + task) * cut.slot_size();
    HWY_DYNAMIC_DISPATCH(backward_queries)
    (work.job(first + group, task, slot), thread_scratch(needed));
  });
  parallel_ranges(groups * a.S, kKeyBlock, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t group = i / a.S;
      const std::size_t j = i % a.S;
      const std::size_t b = (first + group) / a.G;
      const std::size_t g = (first + group) % a.G;
      const float* slot = slots + group * cut.tasks() * cut.slot_size();
      const AttentionGradients& out = work.out;
      sum_tasks(work, {slot, a.D}, j, a.scale, out.dk.row(b, g, j), out.dk.element);
      sum_tasks(work, {slot + cut.dk_size, a.Dv}, j, 1.0F, out.dv.row(b, g, j), out.dv.element);
    }
  });
}

}  // namespace

void backward_blocks(const ExactAttention& a,
                     const AttentionInputs& in,
                     const AttentionSaved& saved,
                     const AttentionGradients& out) {
  const Backward work{a, in, saved, out, Cut(a)};
  // As many kv heads at once as keep all threads busy: more would only cost memory.
  const std::size_t busy = 2 * static_cast<std::size_t>(threads());
  const std::size_t tasks = std::max<std::size_t>(1, work.cut.tasks());
  const std::size_t wave = std::min(a.B * a.G, (busy + tasks - 1) / tasks);
  AlignedBuffer<float> slots(wave * work.cut.tasks() * work.cut.slot_size());
  for (std::size_t first = 0; first < a.B * a.G; first += wave) {
    backward_wave(work, first, std::min(wave, a.B * a.G - first), slots.data());
  }
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
