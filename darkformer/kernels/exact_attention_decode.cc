// One query per head against a long cache: every key is read once for all heads that share it, in
// pieces that run in parallel and are joined in order.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/exact_attention_parts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/exact_attention_decode.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/exact_attention_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

struct DecodeScratch {
  DecodeScratch(const ExactAttention& a, float* memory) : pieces(memory) {
    scores = pieces.take(a.H / a.G * kPieceKeys);
    k_spare = pieces.take(kPieceKeys * padded_columns(a.D));
    v_spare = pieces.take(kPieceKeys * padded_columns(a.Dv));
  }
  Pieces pieces;
  float *scores, *k_spare, *v_spare;
};

std::size_t decode_scratch_size(const ExactAttention& a) {
  return DecodeScratch(a, nullptr).pieces.used();
}

// scores[h][j] <- q_h . k_j for kHeads heads; a row of keys is loaded once for all of them.
template <std::size_t kHeads>
void score_keys(
    const ExactAttention& a, const float* q, TileRight k, std::size_t keys, float* scores) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t q_ld = round_up(a.D, 16);
  for (std::size_t j = 0; j < keys; ++j) {
    const float* key = k.data + j * k.ld;
    FloatsV sum[kHeads];
    for (std::size_t h = 0; h < kHeads; ++h) {
      sum[h] = hn::Zero(d);
    }
    for (std::size_t c = 0; c < a.D; c += lanes) {
      const FloatsV value = hn::LoadU(d, key + c);
      for (std::size_t h = 0; h < kHeads; ++h) {
        sum[h] = hn::MulAdd(value, hn::LoadU(d, q + h * q_ld + c), sum[h]);
      }
    }
    for (std::size_t h = 0; h < kHeads; ++h) {
      scores[h * kPieceKeys + j] = sum_of_lanes(d, sum[h]);
    }
  }
}

// s <- cap tanh(s)
void cap_row(float cap, std::size_t keys, float* s) {
  const Floats d;
  for (std::size_t j = 0; j < keys; j += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::Set(d, cap), tanh(d, hn::LoadU(d, s + j))), d, s + j);
  }
}

// s <- 2^(s - max s); returns the maximum and the sum. Whole vectors of s are touched.
PartialSoftmax exp_row(std::size_t keys, float* s) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  std::fill(s + keys, s + round_up(keys, lanes), -kInfinity);
  FloatsV top = hn::Set(d, -kInfinity);
  for (std::size_t j = 0; j < keys; j += lanes) {
    top = hn::Max(top, hn::LoadU(d, s + j));
  }
  const float maximum = max_of_lanes(d, top);
  FloatsV sum = hn::Zero(d);
  for (std::size_t j = 0; j < keys; j += lanes) {
    const FloatsV p = exp2_flushed(d, hn::Sub(hn::LoadU(d, s + j), hn::Set(d, maximum)));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, s + j);
  }
  return {maximum, sum_of_lanes(d, sum)};
}

// One piece of the keys for all heads of a group: o[h] <- sum_j 2^(s_hj - m_h) v_j
void decode_piece(const DecodeJob& job, float* memory) {
  const ExactAttention& a = *job.shape;
  const ScoreFactors scoring = score_factors(a);
  const DecodeScratch scratch(a, memory);
  const std::size_t heads = a.H / a.G;
  const std::size_t keys = job.keys.size();
  const std::size_t q_ld = round_up(a.D, 16);
  const TileRight k = whole_rows(job.k.from(job.keys.begin), keys, a.D, scratch.k_spare);
  const TileRight v = whole_rows(job.v.from(job.keys.begin), keys, a.Dv, scratch.v_spare);
  std::size_t h = 0;
  for (; h + 4 <= heads; h += 4) {
    score_keys<4>(a, job.q + h * q_ld, k, keys, scratch.scores + h * kPieceKeys);
  }
  for (; h < heads; ++h) {
    score_keys<1>(a, job.q + h * q_ld, k, keys, scratch.scores + h * kPieceKeys);
  }
  for (h = 0; h < heads; ++h) {
    float* row = scratch.scores + h * kPieceKeys;
    if (scoring.cap > 0.0F) {
      cap_row(scoring.cap, keys, row);
    }
    job.partial[h] = exp_row(keys, row);
  }
  tile_product(heads, a.Dv, keys, {scratch.scores, kPieceKeys, 1}, v,
               {job.o, round_up(a.Dv, 16), false});
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {

HWY_EXPORT(decode_scratch_size);
HWY_EXPORT(decode_piece);

// The keys that the one query sees, cut at multiples of kPieceKeys.
std::vector<Range> decode_pieces(const ExactAttention& a) {
  const std::size_t low = a.window == 0 || a.window >= a.S ? 0 : a.S - a.window;
  const std::size_t sinks = std::min(a.sinks, low);
  std::vector<Range> pieces;
  for (const Range seen : {Range{0, sinks}, Range{low, a.S}}) {
    for (std::size_t begin = seen.begin; begin < seen.end;) {
      const std::size_t end = std::min(seen.end, (begin / kPieceKeys + 1) * kPieceKeys);
      pieces.push_back({begin, end});
      begin = end;
    }
  }
  return pieces;
}

// (B, H, round_up(D, 16)) <- factor q, zero beyond D
void pack_queries(const ExactAttention& a, HeadsView<const float> q, float factor, float* out) {
  const std::size_t ld = round_up(a.D, 16);
  for (std::size_t row = 0; row < a.B * a.H; ++row) {
    const float* from = q.row(row / a.H, row % a.H, 0);
    for (std::size_t d = 0; d < ld; ++d) {
      out[row * ld + d] =
          d < a.D ? factor * from[static_cast<std::ptrdiff_t>(d) * q.element] : 0.0F;
    }
  }
}

// Where the pieces of all heads are kept: piece p of (b, h) at index (b, g, p, h % (H / G)).
struct Partials {
  std::size_t pieces, heads, ld;
  AlignedBuffer<float> o;
  std::vector<PartialSoftmax> softmax;

  Partials(const ExactAttention& a, std::size_t piece_count)
      : pieces(piece_count),
        heads(a.H / a.G),
        ld(round_up(a.Dv, 16)),
        o(a.B * a.H * piece_count * ld),
        softmax(a.B * a.H * piece_count) {}
  // group = b G + g
  std::size_t index(std::size_t group, std::size_t piece) const {
    return (group * pieces + piece) * heads;
  }
};

// o <- sum_p 2^(m_p - m) o_p / sum_p 2^(m_p - m) l_p, in the order of the pieces
void join(const Partials& partials,
          std::size_t group,
          std::size_t h,
          std::size_t Dv,
          HeadRowsOut o,
          float* lse) {
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::size_t p = 0; p < partials.pieces; ++p) {
    maximum = std::max(maximum, partials.softmax[partials.index(group, p) + h].maximum);
  }
  std::vector<float> total(Dv, 0.0F);
  float sum = 0.0F;
  for (std::size_t p = 0; p < partials.pieces; ++p) {
    const std::size_t at = partials.index(group, p) + h;
    const float weight = std::exp2(partials.softmax[at].maximum - maximum);
    sum += weight * partials.softmax[at].sum;
    for (std::size_t d = 0; d < Dv; ++d) {
      total[d] += weight * partials.o[at * partials.ld + d];
    }
  }
  const bool blind = partials.pieces == 0;
  for (std::size_t d = 0; d < Dv; ++d) {
    o.data[static_cast<std::ptrdiff_t>(d) * o.element] = blind ? 0.0F : total[d] / sum;
  }
  if (lse != nullptr) {
    *lse = blind ? maximum : log_sum(maximum, sum);
  }
}

}  // namespace

void forward_decode(const ExactAttention& a,
                    const AttentionInputs& in,
                    const AttentionOutputs& out) {
  const std::vector<Range> pieces = decode_pieces(a);
  const std::size_t needed = HWY_DYNAMIC_DISPATCH(decode_scratch_size)(a);
  const std::size_t heads = a.H / a.G;
  const std::size_t q_ld = round_up(a.D, 16);
  AlignedBuffer<float> q(a.B * a.H * q_ld);
  pack_queries(a, in.q, score_factors(a).pack, q.data());
  Partials partials(a, pieces.size());
  parallel_for(a.B * a.G * pieces.size(), [&](std::size_t task) {
    const std::size_t group = task / pieces.size();
    const std::size_t at = partials.index(group, task % pieces.size());
    const DecodeJob job{&a,
                        pieces[task % pieces.size()],
                        q.data() + group * heads * q_ld,
                        rows_of(in.k, group / a.G, group % a.G),
                        rows_of(in.v, group / a.G, group % a.G),
                        partials.o.data() + at * partials.ld,
                        partials.softmax.data() + at};
    HWY_DYNAMIC_DISPATCH(decode_piece)(job, thread_scratch(needed));
  });
  parallel_for(a.B * a.H, [&](std::size_t row) {
    const std::size_t b = row / a.H;
    const std::size_t h = row % a.H;
    float* lse = out.lse ? out.lse.row(b, h, 0) : nullptr;
    join(partials, row / heads, row % heads, a.Dv, rows_of(out.o, b, h), lse);
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
