// Decoding: prefill and steps equal one pass however the tokens are divided, and a million steps do
// not drift.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_problem.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::dark_decode_test {
namespace {

// A state with its memory.
struct OwnedState {
  explicit OwnedState(const DarkAttention& s)
      : sum(s.B * s.N * s.F * s.Dv),
        weight(s.B * s.N * s.F),
        log_scale(s.B * s.N),
        ring_k(s.B * s.G * s.window * s.D),
        ring_v(s.B * s.G * s.window * s.Dv),
        sink_k(s.B * s.G * s.sinks * s.D),
        sink_v(s.B * s.G * s.sinks * s.Dv),
        value_sum(s.B * s.N * s.Dv) {
    clear_dark_state(s, view());
  }
  DarkState view() {
    return {sum.data(),    weight.data(), log_scale.data(), &position,       ring_k.data(),
            ring_v.data(), sink_k.data(), sink_v.data(),    value_sum.data()};
  }
  std::vector<float> sum, weight, log_scale, ring_k, ring_v, sink_k, sink_v, value_sum;
  std::int64_t position = 0;
};

// Tokens [begin, end) of a problem, read onto the state by prefill or, token by token, by steps.
void read_tokens(const DarkProblem& p,
                 std::size_t begin,
                 std::size_t end,
                 bool steps,
                 OwnedState& state,
                 std::vector<float>& o) {
  for (std::size_t t = begin; t < end;) {
    DarkAttention s = p.shape;
    s.T = s.S = steps ? 1 : end - t;
    DarkInputs in = p.inputs();
    in.q.data = in.q.row(0, 0, t);
    in.k.data = in.k.row(0, 0, t);
    in.v.data = in.v.row(0, 0, t);
    if (p.gate_per_token) {
      in.parameters.gate = nullptr;
    }
    auto to = contiguous_heads(o.data(), s.H, p.shape.T, s.Dv);
    to.data = to.row(0, 0, t);
    if (steps) {
      dark_attention_step(s, in, state.view(), to);
    } else {
      dark_attention_prefill(s, in, state.view(), to);
    }
    t += s.T;
  }
}

void expect_close(const DarkProblem& p,
                  const std::vector<float>& o,
                  const std::vector<double>& want) {
  // Features of moderate inputs are exact to some 50 roundings; sums over T tokens add their root.
  const double bound = sum_bound(kEpsFloat, 50 * 50 + p.shape.T, 4.0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(o[i], want[i], bound) << i;
  }
}

TEST(DarkDecode, AnyDivisionEqualsOnePass) {
  const std::size_t T = 45;
  for (const char* options :
       {"D8 F12 chunk8",
        "D8 F12 R5 chunk8 factor keyfactor weights querycenter keycenter",
        "N4 D8 F12 chunk8 factor querycenter keycenter",
        "D8 Dv6 F12 chunk8 window7 sinks3 factor querycenter keycenter headgate",
        "D8 F12 chunk8 window7 sinks3 querycenter keycenter",
        "D8 F12 chunk8 sinks3 factor",
        "D8 F12 window1",
        "N4 D8 F12 chunk8 window5 factor keyfactor",
        "D8 Dv6 F12 R5 chunk8 window7 sinks3 factor querycenter keycenter headgate modelnear",
        "N4 D8 F12 chunk8 window5 factor keyfactor modelnear",
        "D8 F12 chunk8 sinks3 factor keycenter modelnear",
        "D8 F12 chunk8 window7 querycenter keycenter modelnear",
        "D8 Dv6 F12 R5 chunk8 window7 sinks3 factor querycenter keycenter headgate farall",
        "N4 D8 F12 chunk8 window5 factor keyfactor modelnear farall",
        "D8 F12 chunk8 sinks3 factor keycenter farall",
        "D8 F12 window1 weights farall",
        "D8 F12 chunk8 factor farall",
        "D8 F12 chunk8 softmax factor keyfactor",
        "N4 D8 Dv6 F20 chunk8 window5 sinks2 softmax factor keyfactor headgate",
        "D8 F16 chunk8 window5 softmax factor keyfactor farall"}) {
    const DarkProblem p = read_problem("B2 H4 G2 T" + std::to_string(T) + " " + options);
    SCOPED_TRACE(p.name);
    const DarkReference want = dark_attention_ref(p.shape, p.inputs(), nullptr);
    for (const std::size_t cut :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{11}, std::size_t{30}, T}) {
      for (const bool steps : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "cut " << cut << " steps " << steps);
        OwnedState state(p.shape);
        std::vector<float> o(want.o.size(), std::nanf(""));
        read_tokens(p, 0, cut, false, state, o);
        read_tokens(p, cut, T, steps, state, o);
        EXPECT_EQ(state.position, static_cast<std::int64_t>(T));
        expect_close(p, o, want.o);
      }
    }
  }
}

// Quadratic = chunked = split and resumed = recurrent, for every chunk and thread count.
TEST(DarkDecode, EveryChunkAndThreadCountAgree) {
  const std::size_t T = 260;
  DarkProblem p = read_problem("B1 H2 G1 T260 D4 F5 factor querycenter keycenter");
  const DarkReference want = dark_attention_ref(p.shape, p.inputs(), nullptr);
  on_every_thread_count([&] {
    for (std::size_t chunk = 1; chunk <= 256; ++chunk) {
      SCOPED_TRACE(::testing::Message() << "chunk " << chunk);
      p.shape.chunk = chunk;
      DarkCache cache;
      std::vector<float> o(want.o.size(), std::nanf(""));
      dark_attention(p.shape, p.inputs(), contiguous_heads(o.data(), 2, T, 4), cache, false);
      expect_close(p, o, want.o);
      const std::size_t cut = 1 + chunk * 37 % (T - 1);
      OwnedState state(p.shape);
      o.assign(want.o.size(), std::nanf(""));
      read_tokens(p, 0, cut, false, state, o);
      read_tokens(p, cut, T, false, state, o);
      expect_close(p, o, want.o);
    }
    OwnedState state(p.shape);
    std::vector<float> o(want.o.size(), std::nanf(""));
    read_tokens(p, 0, T, true, state, o);
    expect_close(p, o, want.o);
  });
}

TEST(DarkDecode, EveryThreadCountAndTarget) {
  for (const char* options : {"querycenter keycenter", "querycenter keycenter modelnear",
                              "querycenter keycenter farall", "softmax keyfactor"}) {
    const DarkProblem p =
        read_problem(std::string("B1 H4 G2 T20 D8 F12 chunk8 window4 sinks1 factor ") + options);
    const DarkReference want = dark_attention_ref(p.shape, p.inputs(), nullptr);
    on_every_target([&] {
      on_every_thread_count([&] {
        OwnedState state(p.shape);
        std::vector<float> o(want.o.size(), std::nanf(""));
        read_tokens(p, 0, 9, false, state, o);
        read_tokens(p, 9, 20, true, state, o);
        expect_close(p, o, want.o);
      });
    });
  }
}

TEST(DarkDecode, ACopiedStateGoesOnWithTheSameBits) {
  const DarkProblem p = read_problem("B1 H2 G1 T40 D8 F12 window4 factor");
  OwnedState state(p.shape);
  std::vector<float> first(p.d_o.size()), second(p.d_o.size());
  read_tokens(p, 0, 20, true, state, first);
  OwnedState copy = state;
  read_tokens(p, 20, 40, true, state, first);
  std::copy(first.begin(), first.begin() + 20 * 8, second.begin());
  read_tokens(p, 20, 40, true, copy, second);
  for (std::size_t h = 0; h < 2; ++h) {
    EXPECT_EQ(
        std::memcmp(&first[(h * 40 + 20) * 8], &second[(h * 40 + 20) * 8], 20 * 8 * sizeof(float)),
        0);
  }
}

// The same token a million times: the output is its value, whatever the features. Plain float32
// sums of equal terms are off by up to 1 % by then, S and z each in its own way; the state must not
// be.
TEST(DarkDecode, AMillionStepsDoNotDrift) {
  const std::size_t steps = 1'000'000;
  const DarkProblem p = read_problem("B1 H1 G1 T1 D4 Dv16 F2");
  OwnedState state(p.shape);
  std::vector<float> o(16);
  for (std::size_t t = 0; t < steps; ++t) {
    dark_attention_step(p.shape, p.inputs(), state.view(), contiguous_heads(o.data(), 1, 1, 16));
  }
  for (std::size_t d = 0; d < 16; ++d) {
    EXPECT_NEAR(o[d], p.v[d], 1e-4 * std::abs(p.v[d])) << d;
  }
}

}  // namespace
}  // namespace darkformer::kernels::dark_decode_test
