// Dark attention: fast equals reference, outputs and every gradient by name, over the shape file
// and at the extremes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/dark_attention.h"

#include <algorithm>
#include <cstring>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/dark_problem.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::dark_attention_test {
namespace {

struct DarkResult {
  explicit DarkResult(const DarkProblem& p)
      : o(p.d_o.size()),
        dq(p.q.size()),
        dk(p.k.size()),
        dv(p.v.size()),
        d_draws(p.draws.size()),
        d_factor(p.factor.size()),
        d_key_factor(p.key_factor.size()),
        d_log_weights(p.log_weights.size()),
        d_query_center(p.query_center.size()),
        d_key_center(p.key_center.size()),
        d_gate(p.gate.size()) {}

  PoisonedBuffer<float> o, dq, dk, dv, d_draws, d_factor, d_key_factor, d_log_weights,
      d_query_center, d_key_center, d_gate;
  std::size_t fallback_rows = 0;
};

float* wanted(PoisonedBuffer<float>& x) {
  return x.size() == 0 ? nullptr : x.data();
}

DarkResult run(const DarkProblem& p, bool backward = true) {
  DarkResult r(p);
  const DarkAttention& s = p.shape;
  const DarkInputs in = p.inputs();
  DarkCache cache;
  const auto o = contiguous_heads(r.o.data(), s.H, s.T, s.Dv);
  r.fallback_rows = dark_attention(s, in, o, cache, backward);
  if (backward) {
    dark_attention_backward(s, in, contiguous_heads<const float>(r.o.data(), s.H, s.T, s.Dv),
                            contiguous_heads(p.d_o.data(), s.H, s.T, s.Dv), cache,
                            {r.dq.data(), r.dk.data(), r.dv.data(), wanted(r.d_draws),
                             wanted(r.d_factor), wanted(r.d_key_factor), wanted(r.d_log_weights),
                             wanted(r.d_query_center), wanted(r.d_key_center), wanted(r.d_gate)});
  }
  return r;
}

double largest(const std::vector<double>& x) {
  double top = 0.0;
  for (const double value : x) {
    top = std::max(top, std::abs(value));
  }
  return top;
}

// The relative error of one feature: the rounding of its logarithm, whose terms sum to `logs` in
// size, and of the sums it enters.
double feature_error(const DarkProblem& p) {
  const DarkAttention& s = p.shape;
  double query = 0.0, key = 0.0, draw = 0.0;
  for (std::size_t i = 0; i < p.q.size(); i += s.D) {
    double norm = 0.0;
    for (std::size_t d = 0; d < s.D; ++d) {
      norm += static_cast<double>(p.q[i + d]) * p.q[i + d];
    }
    query = std::max(query, norm * s.scale);
  }
  for (std::size_t i = 0; i < p.k.size(); i += s.D) {
    double norm = 0.0;
    for (std::size_t d = 0; d < s.D; ++d) {
      norm += static_cast<double>(p.k[i + d]) * p.k[i + d];
    }
    key = std::max(key, norm * s.scale);
  }
  for (std::size_t i = 0; i < p.draws.size(); i += s.R) {
    double norm = 0.0;
    for (std::size_t d = 0; d < s.R; ++d) {
      norm += static_cast<double>(p.draws[i + d]) * p.draws[i + d];
    }
    draw = std::max(draw, norm);
  }
  const double map = p.factor.empty() ? 1.0 : 2.0;  // a random factor stretches by less than 2
  const double logs =
      std::sqrt(draw) * map * (std::sqrt(query) + std::sqrt(key)) + map * map * (query + key);
  return sum_bound(kEpsFloat, s.D, 1.0) * (1.0 + logs) + sum_bound(kEpsFloat, s.S + s.F, 1.0);
}

double largest(const std::vector<float>& x) {
  return largest(std::vector<double>(x.begin(), x.end()));
}

// Gradients of logits are differences of d_o . v and d_o . o: where they cancel, the rounding of
// those products remains, multiplied by whatever the tensor's chain carries (inputs, draws, maps),
// none larger than `carried`.
double cancellation(const DarkProblem& p) {
  const double carried = std::max({1.0, largest(p.draws), largest(p.q), largest(p.k)});
  const double rows = static_cast<double>(p.shape.B * p.shape.H * p.shape.T);
  return sum_bound(kEpsFloat, p.shape.Dv,
                   static_cast<double>(p.shape.Dv) * largest(p.d_o) * largest(p.v)) *
         carried * carried * std::sqrt(rows);
}

void expect_tensor(const char* name,
                   const PoisonedBuffer<float>& got,
                   const std::vector<double>& want,
                   double error,
                   double floor) {
  if (got.size() == 0) {
    return;
  }
  const double bound = error * largest(want) + floor;
  expect_near(name, got, want, [bound](std::size_t) { return bound; });
}

void expect_reference(const DarkProblem& p) {
  const DarkReference want = dark_attention_ref(p.shape, p.inputs(), p.d_o.data());
  const DarkResult got = run(p);
  const double error = feature_error(p), floor = cancellation(p);
  EXPECT_EQ(got.fallback_rows, 0U);
  expect_tensor("o", got.o, want.o, error, 0.0);
  expect_tensor("dq", got.dq, want.dq, error, floor);
  expect_tensor("dk", got.dk, want.dk, error, floor);
  expect_tensor("dv", got.dv, want.dv, error, floor);
  expect_tensor("d_draws", got.d_draws, want.d_draws, error, floor);
  expect_tensor("d_factor", got.d_factor, want.d_factor, error, floor);
  expect_tensor("d_key_factor", got.d_key_factor, want.d_key_factor, error, floor);
  expect_tensor("d_log_weights", got.d_log_weights, want.d_log_weights, error, floor);
  expect_tensor("d_query_center", got.d_query_center, want.d_query_center, error, floor);
  expect_tensor("d_key_center", got.d_key_center, want.d_key_center, error, floor);
  expect_tensor("d_gate", got.d_gate, want.d_gate, error, floor);
}

TEST(DarkAttention, EqualsTheReferenceOnEveryShape) {
  for (const ShapeLine& line : read_shapes(DARKFORMER_SHAPES "/dark_attention.txt")) {
    if (!line.flag("large")) {
      SCOPED_TRACE(line.id());
      expect_reference(read_problem(line));
    }
  }
}

TEST(DarkAttention, EqualsTheReferenceOnEveryTarget) {
  on_every_target([] {
    expect_reference(
        read_problem("B1 H4 G2 T70 D12 F19 R9 chunk16 factor weights querycenter keycenter"));
    expect_reference(read_problem("B1 H2 G1 T30 D9 F11 chunk7 window5 sinks2 factor headgate"));
    expect_reference(
        read_problem("B1 H2 G1 T30 D9 F11 R4 chunk7 window5 sinks2 factor keycenter modelnear"));
    expect_reference(
        read_problem("B1 H2 G1 T30 D9 F11 R4 chunk7 window5 sinks2 factor keycenter farall"));
    expect_reference(
        read_problem("B1 H2 G1 T30 D9 F46 chunk7 window5 sinks2 softmax factor keyfactor"));
  });
}

TEST(DarkAttention, EqualsTheReferenceAtEveryThreadCount) {
  on_every_thread_count([] {
    expect_reference(
        read_problem("B1 H2 G1 T70 D8 F9 chunk4 factor weights querycenter keycenter"));
    expect_reference(read_problem("B1 H2 G1 T60 S90 D8 F9 chunk4 weights querycenter full"));
    expect_reference(
        read_problem("B1 H2 G1 T70 D8 F9 chunk4 window9 sinks2 factor querycenter keycenter"));
    expect_reference(
        read_problem("B1 H4 G2 T70 D8 F9 chunk4 window9 sinks2 factor keycenter modelnear"));
    expect_reference(
        read_problem("B1 H4 G2 T70 D8 F9 chunk4 window9 sinks2 factor keycenter farall"));
    expect_reference(read_problem("B1 H4 G2 T70 D8 F10 chunk4 window9 softmax factor keyfactor"));
  });
}

TEST(DarkAttention, EqualsTheReferenceForEveryChunk) {
  for (const std::size_t chunk : {1, 2, 3, 15, 16, 17, 31, 64, 100, 256}) {
    DarkProblem p = read_problem("B1 H2 G1 T130 D8 F9 factor querycenter keycenter");
    p.shape.chunk = chunk;
    SCOPED_TRACE(chunk);
    expect_reference(p);
  }
}

// |k|^2 and |q|^2 up to 200 after the scale.
TEST(DarkAttention, HoldsAtLargeNorms) {
  for (const char* line :
       {"B1 H2 G1 T40 D16 F32 chunk16", "B1 H2 G1 T40 D16 F32 chunk16 window6 sinks2"}) {
    SCOPED_TRACE(line);
    expect_reference(read_problem(line, std::sqrt(200.0F)));
  }
}

TEST(DarkAttention, HoldsWhenTheLastKeyDominates) {
  DarkProblem p = read_problem("B1 H2 G1 T40 D16 F32 chunk16", std::sqrt(150.0F));
  std::fill(p.k.end() - 16, p.k.end(),
            0.0F);  // norm 0: its features are the largest by a hundred bits
  expect_reference(p);
}

TEST(DarkAttention, ZeroAndSingularFactorsStayFinite) {
  DarkProblem p = read_problem("B1 H2 G1 T20 D8 F12 chunk8 factor querycenter keycenter");
  std::fill(p.factor.begin() + 8, p.factor.end(), 0.0F);  // rank one
  expect_reference(p);
  std::fill(p.factor.begin(), p.factor.end(), 0.0F);
  expect_reference(p);
}

TEST(DarkAttention, VanishedRowsBecomeTheMeanOfTheirValues) {
  DarkProblem p = read_problem("B1 H1 G1 T6 D4 F16 chunk4");
  for (std::size_t i = 0; i < p.q.size(); ++i) {
    p.q[i] = i % 4 == 0 ? 80.0F : 0.0F;
    p.k[i] = -p.q[i];
  }
  const DarkResult got = run(p);
  EXPECT_EQ(got.fallback_rows, 6U);
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::size_t d = 0; d < 4; ++d) {
      double mean = 0.0;
      for (std::size_t j = 0; j <= t; ++j) {
        mean += p.v[j * 4 + d] / static_cast<double>(t + 1);
      }
      EXPECT_NEAR(got.o[t * 4 + d], mean, 1e-6);
    }
  }
  EXPECT_TRUE(got.dq.fully_written() && got.dk.fully_written() && got.d_draws.fully_written());
  // dv_j = sum over t >= j of d_o_t / (t + 1)
  for (std::size_t j = 0; j < 6; ++j) {
    double gradient = 0.0;
    for (std::size_t t = j; t < 6; ++t) {
      gradient += p.d_o[t * 4] / static_cast<double>(t + 1);
    }
    EXPECT_NEAR(got.dv[j * 4], gradient, 1e-5);
  }
}

void expect_same_prefix(const DarkProblem& p, const DarkProblem& changed, std::size_t tokens) {
  const DarkResult before = run(p, false), after = run(changed, false);
  const DarkAttention& s = p.shape;
  for (std::size_t bh = 0; bh < s.B * s.H; ++bh) {
    const std::size_t at = bh * s.T * s.Dv;
    EXPECT_EQ(std::memcmp(&before.o[at], &after.o[at], tokens * s.Dv * sizeof(float)), 0);
  }
}

// A change of token t changes no output before t by a single bit: small changes, and keys that
// raise the scale by hundreds of bits.
TEST(DarkAttention, IsCausalToTheBit) {
  for (const char* line : {"B1 H2 G1 T50 D8 F12 chunk16 factor querycenter keycenter",
                           "B1 H2 G1 T50 D8 F12 chunk16 window6 sinks2 factor",
                           "B1 H2 G1 T50 D8 F12 chunk16 window6 sinks2 factor modelnear",
                           "B1 H2 G1 T50 D8 F12 chunk16 window6 sinks2 factor farall",
                           "B1 H2 G1 T50 D8 F12 chunk16 window6 softmax factor keyfactor"}) {
    for (const float size : {2.0F, 14.0F}) {
      on_every_thread_count([&] {
        const DarkProblem p = read_problem(line, size);
        for (const std::size_t t : {1, 15, 16, 17, 33, 49}) {
          for (const float factor : {0.0F, 0.99F, -1.0F, 30.0F}) {
            DarkProblem changed = p;
            for (std::size_t d = 0; d < 8; ++d) {
              changed.k[t * 8 + d] *= factor;
              changed.v[t * 8 + d] *= factor;
            }
            expect_same_prefix(p, changed, t);
          }
        }
      });
    }
  }
}

// A key inside a chunk whose features stand hundreds of bits above all earlier ones: a block that
// held both would push the earlier rows out of the range of float, so the block must end before it.
TEST(DarkAttention, IsCausalToTheBitWhenTheScaleLeavesTheRangeOfFloat) {
  on_every_thread_count([&] {
    DarkProblem p = read_problem("B1 H2 G1 T50 D8 F12 chunk16");
    for (float& k : p.k) {
      k *= 12.0F;  // |k|^2 / 2 of some 400 bits, against which queries of norm 2 cannot vanish
    }
    EXPECT_EQ(run(p, false).fallback_rows, 0U);
    for (const std::size_t t : {1, 5, 15, 16, 17, 30, 49}) {
      SCOPED_TRACE(t);
      DarkProblem changed = p;
      std::fill_n(changed.k.begin() + static_cast<std::ptrdiff_t>(t * 8), 8, 0.0F);
      expect_same_prefix(p, changed, t);
      EXPECT_EQ(run(changed, false).fallback_rows, 0U);
    }
  });
}

// Gradients that nobody asks for are not made, and the others do not change.
TEST(DarkAttention, GradientsOfParametersAreOptional) {
  for (const char* line : {"B1 H4 G2 T30 D8 F12 chunk8 weights querycenter keycenter",
                           "B1 H4 G2 T30 D8 F12 R6 chunk8 factor querycenter window4",
                           "B1 H4 G2 T30 D8 F12 chunk8 factor keyfactor keycenter window4",
                           "B1 H4 G2 T30 D8 F12 R6 chunk8 factor keycenter window4 modelnear",
                           "B1 H4 G2 T30 D8 F12 chunk8 window4 softmax factor keyfactor"}) {
    const DarkProblem p = read_problem(line);
    const DarkAttention& s = p.shape;
    const DarkResult want = run(p);
    DarkResult got = run(p, false);
    DarkCache cache;
    dark_attention(s, p.inputs(), contiguous_heads(got.o.data(), s.H, s.T, s.Dv), cache, true);
    DarkGradients gradients;
    gradients.dq = got.dq.data(), gradients.dk = got.dk.data(), gradients.dv = got.dv.data();
    dark_attention_backward(s, p.inputs(),
                            contiguous_heads<const float>(got.o.data(), s.H, s.T, s.Dv),
                            contiguous_heads(p.d_o.data(), s.H, s.T, s.Dv), cache, gradients);
    EXPECT_EQ(std::memcmp(got.dq.data(), want.dq.data(), got.dq.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(got.dk.data(), want.dk.data(), got.dk.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(got.dv.data(), want.dv.data(), got.dv.size() * sizeof(float)), 0);
  }
}

// Where M is the identity, the model's own kernel is the factor's.
TEST(DarkAttention, ModelNearIsTheFactorsWhereThatIsTheIdentity) {
  for (const char* line : {"B1 H4 G2 T30 D8 F12 chunk8 window5 sinks2 querycenter keycenter",
                           "B1 H4 G2 T30 D8 F12 chunk8 window5 factor querycenter keycenter"}) {
    DarkProblem p = read_problem(line);
    for (std::size_t i = 0; i < p.factor.size(); ++i) {
      p.factor[i] = i / 8 % 8 == i % 8 ? 1.0F : 0.0F;
    }
    const DarkReference want = dark_attention_ref(p.shape, p.inputs(), p.d_o.data());
    p.shape.model_near = true;
    const DarkReference got = dark_attention_ref(p.shape, p.inputs(), p.d_o.data());
    const auto expect_equal = [](const std::vector<double>& x, const std::vector<double>& y) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], y[i], 1e-6 * (1.0 + std::abs(y[i]))) << i;
      }
    };
    expect_equal(got.o, want.o);
    expect_equal(got.dq, want.dq);
    expect_equal(got.dk, want.dk);
    expect_equal(got.d_query_center, want.d_query_center);
    expect_equal(got.d_key_center, want.d_key_center);
  }
}

TEST(DarkAttention, ReadsAnyStrides) {
  const DarkProblem p = read_problem("B2 H4 G2 T19 D6 F10 chunk8 factor keycenter");
  const DarkAttention& s = p.shape;
  // (B,T,H,D) storage seen as (B,H,T,D), and values with an element stride of 3.
  std::vector<float> q(p.q.size()), v(p.v.size() * 3);
  for (std::size_t b = 0; b < s.B; ++b) {
    for (std::size_t h = 0; h < s.H; ++h) {
      for (std::size_t t = 0; t < s.T; ++t) {
        for (std::size_t d = 0; d < s.D; ++d) {
          q[((b * s.T + t) * s.H + h) * s.D + d] = p.q[((b * s.H + h) * s.T + t) * s.D + d];
        }
      }
    }
  }
  for (std::size_t i = 0; i < p.v.size(); ++i) {
    v[i * 3] = p.v[i];
  }
  DarkInputs in = p.inputs();
  const auto D = static_cast<std::ptrdiff_t>(s.D), H = static_cast<std::ptrdiff_t>(s.H),
             T = static_cast<std::ptrdiff_t>(s.T), G = static_cast<std::ptrdiff_t>(s.G);
  in.q = {q.data(), T * H * D, D, H * D, 1};
  in.v = {v.data(), G * T * D * 3, T * D * 3, D * 3, 3};
  PoisonedBuffer<float> o(p.d_o.size());
  DarkCache cache;
  dark_attention(s, in, contiguous_heads(o.data(), s.H, s.T, s.Dv), cache, false);
  const DarkResult want = run(p, false);
  EXPECT_EQ(std::memcmp(o.data(), want.o.data(), o.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace darkformer::kernels::dark_attention_test
