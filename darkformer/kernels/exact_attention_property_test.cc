// What exact attention promises beside its formula: steady bits, extremes, strides, decoding.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>

#include "darkformer/kernels/exact_attention.h"
#include "darkformer/kernels/exact_attention_testing.h"

namespace darkformer::kernels::exact_attention_property_test {
namespace {

double largest(const Values& values) {
  double result = 0.0;
  for (const float value : values) {
    result = std::max(result, std::abs(static_cast<double>(value)));
  }
  return result;
}

bool same_bits(const float* x, const float* y, std::size_t count) {
  return std::equal(x, x + count, y, [](float one, float other) {
    return std::bit_cast<std::uint32_t>(one) == std::bit_cast<std::uint32_t>(other);
  });
}

bool same_bits(const Poisoned& x, const Poisoned& y) {
  return x.size() == y.size() && same_bits(x.data(), y.data(), x.size());
}

TEST(ExactAttention, ThreadsChangeNoBit) {
  for (const char* shape :
       {"B1 H4 G2 T200 S200 D24 V40", "B1 H2 G1 T2100 S2100 D8 V8 window50 sinks3",
        "B2 H3 G3 T97 S97 D16", "B1 H4 G1 T1 S1000 D64"}) {
    const Problem problem(exact_attention_shape(ShapeLine(shape)));
    set_threads(1);
    const Result one = run(problem);
    on_every_thread_count([&] {
      const Result many = run(problem);
      EXPECT_TRUE(same_bits(one.o, many.o) && same_bits(one.lse, many.lse)) << shape;
      EXPECT_TRUE(same_bits(one.dq, many.dq)) << shape;
      EXPECT_TRUE(same_bits(one.dk, many.dk) && same_bits(one.dv, many.dv)) << shape;
    });
  }
}

// Everything at key `changed` and later becomes different; queries before it must not notice.
void expect_causal(Problem problem, std::size_t changed) {
  const ExactAttention& a = problem.a;
  const Result before = run(problem);
  for (std::size_t row = 0; row < a.B * a.G * a.S; ++row) {
    if (row % a.S >= changed) {
      std::fill_n(problem.k.begin() + row * a.D, a.D, 3.0F);
      std::fill_n(problem.v.begin() + row * a.Dv, a.Dv, -1e6F);
    }
  }
  const Result after = run(problem);
  bool any_changed = false;
  for (std::size_t row = 0; row < a.B * a.H * a.T; ++row) {
    const float* x = before.o.data() + row * a.Dv;
    const float* y = after.o.data() + row * a.Dv;
    const bool same = same_bits(x, y, a.Dv) && same_bits(&before.lse[row], &after.lse[row], 1);
    any_changed |= !same;
    if (row % a.T + a.S - a.T < changed) {
      ASSERT_TRUE(same) << "query " << row % a.T << ", changed key " << changed;
    }
  }
  EXPECT_TRUE(any_changed);
}

TEST(ExactAttention, LaterTokensChangeNoEarlierBit) {
  for (const char* shape :
       {"B1 H2 G1 T200 S200 D17 V33", "B1 H1 G1 T150 S250 D16 V16",
        "B1 H1 G1 T300 S300 D16 V16 window40 sinks5", "B1 H1 G1 T120 S120 D16 V16 cap20"}) {
    const Problem problem(exact_attention_shape(ShapeLine(shape)));
    for (const std::size_t back : {1, 5, 24, 60, 97, 119}) {
      SCOPED_TRACE(shape);
      on_every_target([&] { expect_causal(problem, problem.a.S - back); });
    }
  }
}

TEST(ExactAttention, ExtremeScoresStayFinite) {
  for (const char* shape : {"B1 H1 G1 T150 S150 D16", "B1 H1 G1 T150 S150 D16 cap50",
                            "B1 H1 G1 T1 S700 D16", "B1 H1 G1 T150 S150 D16 window30 sinks1"}) {
    Problem problem(exact_attention_shape(ShapeLine(shape)));
    const double score = problem.a.scale * 16.0 * largest(problem.q) * largest(problem.k);
    for (float& q : problem.q) {
      q *= static_cast<float>(1e4 / score);
    }
    const Reference want = reference(problem);
    on_every_target([&] { expect_all_near(run(problem), want, Bounds(problem)); });
  }
}

TEST(ExactAttention, NanInputsShow) {
  for (const char* shape : {"B1 H1 G1 T150 S150 D16", "B1 H1 G1 T1 S700 D16"}) {
    Problem problem(exact_attention_shape(ShapeLine(shape)));
    problem.q.back() = std::nanf("");
    force_simd(simd_targets().front());
    const Result result = run(problem);
    EXPECT_TRUE(std::isnan(result.o[result.o.size() - 1])) << shape;
    EXPECT_TRUE(std::isnan(result.dk[0])) << shape;
    force_simd("");
  }
}

// A (B, H, T, D) tensor laid out in another way, with rubbish between its elements.
struct Strided {
  Poisoned memory;
  HeadsView<float> view;
  std::size_t H, T, D;

  enum Layout { kTimeBeforeHeads, kEverySecond, kReversed };
  Strided(Layout layout, std::size_t B, std::size_t heads, std::size_t times, std::size_t columns)
      : memory(B * heads * times * columns * (layout == kEverySecond ? 2 : 1)),
        H(heads),
        T(times),
        D(columns) {
    const auto h = static_cast<std::ptrdiff_t>(H), t = static_cast<std::ptrdiff_t>(T),
               d = static_cast<std::ptrdiff_t>(D);
    switch (layout) {
      case kTimeBeforeHeads:
        view = {memory.data(), t * h * d, d, h * d, 1};
        break;
      case kEverySecond:
        view = {memory.data(), 2 * h * t * d, 2 * t * d, 2 * d, 2};
        break;
      case kReversed:
        view = {memory.data() + (t - 1) * d, h * t * d, t * d, -d, 1};
        break;
    }
  }
  float& at(std::size_t i) {
    const std::size_t row = i / D;
    return view.row(row / (H * T), row / T % H,
                    row % T)[static_cast<std::ptrdiff_t>(i % D) * view.element];
  }
  HeadsView<const float> load(const Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      at(i) = values[i];
    }
    return {view.data, view.batch, view.head, view.time, view.element};
  }
  Poisoned contiguous() {
    Poisoned result(memory.size() / static_cast<std::size_t>(view.element));
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = at(i);
    }
    return result;
  }
};

void expect_layout_changes_no_bit(const Problem& p, Strided::Layout layout) {
  const ExactAttention& a = p.a;
  const Result want = run(p);
  Strided q(layout, a.B, a.H, a.T, a.D), k(layout, a.B, a.G, a.S, a.D),
      v(layout, a.B, a.G, a.S, a.Dv);
  Strided d_o(layout, a.B, a.H, a.T, a.Dv), d_lse(layout, a.B, a.H, a.T, 1);
  Strided o(layout, a.B, a.H, a.T, a.Dv), lse(layout, a.B, a.H, a.T, 1);
  Strided dq(layout, a.B, a.H, a.T, a.D), dk(layout, a.B, a.G, a.S, a.D),
      dv(layout, a.B, a.G, a.S, a.Dv);
  const AttentionInputs in{q.load(p.q), k.load(p.k), v.load(p.v)};
  exact_attention(a, in, {o.view, lse.view});
  exact_attention_backward(a, in, {o.load({}), lse.load({}), d_o.load(p.d_o), d_lse.load(p.d_lse)},
                           {dq.view, dk.view, dv.view});
  EXPECT_TRUE(same_bits(want.o, o.contiguous()) && same_bits(want.lse, lse.contiguous()));
  EXPECT_TRUE(same_bits(want.dq, dq.contiguous()));
  EXPECT_TRUE(same_bits(want.dk, dk.contiguous()) && same_bits(want.dv, dv.contiguous()));
}

TEST(ExactAttention, StridesChangeNoBit) {
  for (const char* shape : {"B2 H4 G2 T100 S130 D32 V48", "B2 H2 G2 T100 S100 D20 V3",
                            "B1 H16 G16 T100 S100 D64", "B2 H4 G2 T1 S300 D32"}) {
    const Problem problem(exact_attention_shape(ShapeLine(shape)));
    for (const auto layout :
         {Strided::kTimeBeforeHeads, Strided::kEverySecond, Strided::kReversed}) {
      SCOPED_TRACE(::testing::Message() << shape << " layout " << layout);
      expect_layout_changes_no_bit(problem, layout);
    }
  }
}

// One query against the first `length` keys of a longer cache, beside that row of the whole pass.
void expect_step_equals_row(const Problem& all,
                            const Result& want,
                            const Bounds& bounds,
                            std::size_t length) {
  ExactAttention step = all.a;
  step.T = 1;
  step.S = length;
  AttentionInputs in = all.in();
  in.q.data = in.q.row(0, 0, length - 1);
  Poisoned o(step.H * step.Dv), lse(step.H);
  exact_attention(
      step, in,
      {contiguous_heads(o.data(), step.H, 1, step.Dv), contiguous_heads(lse.data(), step.H, 1, 1)});
  for (std::size_t i = 0; i < o.size(); ++i) {
    const std::size_t row = i / step.Dv * all.a.T + length - 1;
    const std::size_t at = row * step.Dv + i % step.Dv;
    EXPECT_NEAR(lse[i / step.Dv], want.lse[row], 2 * bounds.lse[row]);
    EXPECT_NEAR(o[i], want.o[at], 2 * bounds.o[at]);
  }
}

TEST(ExactAttention, DecodeEqualsTheLastRow) {
  for (const char* shape : {"B1 H4 G2 T400 S400 D32", "B1 H2 G1 T400 S400 D32 window100 sinks7",
                            "B1 H2 G1 T400 S400 D32 cap10"}) {
    const Problem all(exact_attention_shape(ShapeLine(shape)));
    const Result want = run(all);
    const Bounds bounds(all);
    for (const std::size_t length : {1, 2, 99, 256, 257, 400}) {
      SCOPED_TRACE(::testing::Message() << shape << " length " << length);
      expect_step_equals_row(all, want, bounds, length);
    }
  }
}

TEST(ExactAttention, LseMayBeLeftOut) {
  for (const char* shape : {"B1 H2 G1 T100 S100 D32", "B1 H2 G1 T1 S100 D32"}) {
    const Problem problem(exact_attention_shape(ShapeLine(shape)));
    const Result want = run(problem);
    Poisoned o(want.o.size());
    exact_attention(problem.a, problem.in(),
                    {contiguous_heads(o.data(), problem.a.H, problem.a.T, problem.a.Dv), {}});
    EXPECT_TRUE(same_bits(want.o, o));
  }
}

TEST(ExactAttention, NothingToDo) {
  Problem problem(exact_attention_shape(ShapeLine("B1 H2 G1 T0 S10 D8")));
  const Result none = run(problem);
  for (const float value : none.dk) {
    EXPECT_EQ(value, 0.0F);
  }
  EXPECT_TRUE(none.dv.fully_written());
  problem = Problem(exact_attention_shape(ShapeLine("B0 H2 G1 T5 S10 D8")));
  run(problem);
}

}  // namespace
}  // namespace darkformer::kernels::exact_attention_property_test
