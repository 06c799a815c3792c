// The dark attention op: kernels against the composition in double, outputs and every gradient by
// name; the composition forced in float; states; every wrong argument.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/dark_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <map>

#include "darkformer/base/error.h"
#include "darkformer/kernels/dark_problem.h"

namespace darkformer::ops::dark_attention_test {
namespace {

using at::Tensor;

// A problem of the shape file as tensors.
struct Call {
  Call(const kernels::DarkProblem& p, at::ScalarType type) {
    const kernels::DarkAttention& s = p.shape;
    const auto tensor = [&](const std::vector<float>& x, std::vector<std::size_t> shape) {
      const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
      return at::from_blob(const_cast<float*>(x.data()), sizes, at::kFloat)
          .to(type, false, true)
          .requires_grad_(true);
    };
    const auto maybe = [&](const std::vector<float>& x, std::vector<std::size_t> shape) {
      return x.empty() ? Optional<Tensor>() : tensor(x, shape);
    };
    q = tensor(p.q, {s.B, s.H, s.T, s.D});
    k = tensor(p.k, {s.B, s.G, s.S, s.D});
    v = tensor(p.v, {s.B, s.G, s.S, s.Dv});
    d_out = tensor(p.d_o, {s.B, s.H, s.T, s.Dv}).detach();
    draws = s.softmax_features
                ? at::empty({static_cast<std::int64_t>(s.N), 0, static_cast<std::int64_t>(s.D)},
                            at::TensorOptions(type))
                : tensor(p.draws, {s.N, s.F, s.R});
    o.factor = maybe(p.factor, {s.N, s.R, s.D});
    o.key_factor = maybe(p.key_factor, {s.N, s.R, s.D});
    o.log_weights = maybe(p.log_weights, {s.N, s.F});
    o.query_center = maybe(p.query_center, {s.N, s.D});
    o.key_center = maybe(p.key_center, {s.G, s.D});
    o.gate = p.gate_per_token ? maybe(p.gate, {s.B, s.H, s.T, 2}) : maybe(p.gate, {s.H, 2});
    o.scale = s.scale, o.causal = s.causal;
    o.window = static_cast<std::int64_t>(s.window), o.sinks = static_cast<std::int64_t>(s.sinks);
    o.model_near = s.model_near, o.far_all = s.far_all, o.softmax_features = s.softmax_features;
  }

  // Every differentiable argument that is there, by name.
  std::map<std::string, Tensor> arguments() const {
    std::map<std::string, Tensor> named = {{"q", q}, {"k", k}, {"v", v}};
    if (draws.requires_grad()) {
      named["draws"] = draws;
    }
    const std::pair<const char*, const Optional<Tensor>&> others[] = {
        {"factor", o.factor},           {"key_factor", o.key_factor},
        {"log_weights", o.log_weights}, {"query_center", o.query_center},
        {"key_center", o.key_center},   {"gate", o.gate}};
    for (const auto& [name, tensor] : others) {
      if (tensor) {
        named[name] = *tensor;
      }
    }
    return named;
  }

  // "out" and the gradient of sum(out * d_out) for every argument.
  std::map<std::string, Tensor> run() const {
    std::map<std::string, Tensor> results;
    const Tensor out = dark_attention(q, k, v, draws, o);
    std::vector<Tensor> inputs;
    for (const auto& [name, tensor] : arguments()) {
      inputs.push_back(tensor);
    }
    const auto gradients = torch::autograd::grad({(out * d_out).sum()}, inputs);
    std::size_t i = 0;
    for (const auto& [name, tensor] : arguments()) {
      results["d_" + name] = gradients[i++];
    }
    results["out"] = out.detach();
    return results;
  }

  Tensor q, k, v, draws, d_out;
  DarkOptions o;
};

// The bounds are those of the kernels' own test (which derives them): here both sides have passed
// through it or are exact, so a flat share of the largest element is enough to catch a wrong
// formula.
void expect_same(const std::map<std::string, Tensor>& got,
                 const std::map<std::string, Tensor>& want,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    const Tensor found = got.at(name).to(at::kDouble), exact = tensor.to(at::kDouble);
    const double size = std::max(exact.abs().max().item<double>(), 1e-2);
    EXPECT_LT((found - exact).abs().max().item<double>(), tolerance * size) << name;
  }
}

TEST(DarkAttentionOp, KernelsEqualTheCompositionInDouble) {
  for (const ShapeLine& line : read_shapes(DARKFORMER_SHAPES "/dark_attention.txt")) {
    if (line.flag("large")) {
      continue;
    }
    SCOPED_TRACE(line.id());
    const kernels::DarkProblem p = kernels::read_problem(line);
    expect_same(Call(p, at::kFloat).run(), Call(p, at::kDouble).run(), 2e-4);
  }
}

TEST(DarkAttentionOp, CompositionInFloatEqualsTheKernels) {
  for (const ShapeLine& line : read_shapes(DARKFORMER_SHAPES "/dark_attention.txt")) {
    if (line.flag("large")) {
      continue;
    }
    SCOPED_TRACE(line.id());
    const Call call(kernels::read_problem(line), at::kFloat);
    const auto kernels = call.run();
    const ForceComposition forced;
    expect_same(call.run(), kernels, 2e-4);
  }
}

// A gradient that nobody wants is not computed, and the others are the same to the bit.
TEST(DarkAttentionOp, UnwantedGradientsAreNotMade) {
  const kernels::DarkProblem p = kernels::read_problem(
      "B1 H4 G2 T20 D8 F12 window4 factor keyfactor weights querycenter keycenter headgate");
  const auto want = Call(p, at::kFloat).run();
  // The order of the op's tensors, q, k and v first, whose gradients are always made.
  const char* names[] = {"q",          "k",          "v",           "draws",
                         "factor",     "key_factor", "log_weights", "query_center",
                         "key_center", "gate"};
  for (std::size_t unwanted = 3; unwanted < std::size(names); ++unwanted) {
    const Call call(p, at::kFloat);
    call.arguments().at(names[unwanted]).requires_grad_(false);
    const Tensor out = dark_attention(call.q, call.k, call.v, call.draws, call.o);
    const at::NoGradGuard no_gradients;
    const auto gradients = (*out.grad_fn())(torch::autograd::variable_list{call.d_out});
    ASSERT_EQ(gradients.size(), std::size(names));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      ASSERT_EQ(gradients[i].defined(), i != unwanted) << names[i] << ", not " << names[unwanted];
      if (i != unwanted) {
        EXPECT_TRUE(at::equal(gradients[i], want.at(std::string("d_") + names[i])))
            << names[i] << ", not " << names[unwanted];
      }
    }
  }
}

TEST(DarkAttentionOp, Bfloat16InAndOut) {
  const Call call(kernels::read_problem("B1 H4 G2 T40 D16 F32 factor"), at::kFloat);
  const auto half = [](const Tensor& x) {
    return x.detach().to(at::kBFloat16).requires_grad_(true);
  };
  const Tensor q = half(call.q), k = half(call.k), v = half(call.v);
  const Tensor out = dark_attention(q, k, v, call.draws, call.o);
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  const Tensor exact = dark_attention(
      q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), call.draws.to(at::kDouble),
      DarkOptions{call.o.factor->to(at::kDouble), {}, {}, {}, {}, {}, call.o.scale, true, 0, 0});
  EXPECT_LT((out.to(at::kDouble) - exact).abs().max().item<double>(),
            exact.abs().max().item<double>() / 128);
  const auto gradients = torch::autograd::grad({out.sum()}, {q, k, v});
  EXPECT_EQ(gradients[0].scalar_type(), at::kBFloat16);
}

// Prefill, then prefill, then steps: one pass, in float by the kernels, in double by the
// composition.
TEST(DarkAttentionOp, StatesGoOn) {
  for (const char* options :
       {"D8 F12 factor", "D8 Dv6 F12 window5 sinks2 factor querycenter keycenter headgate",
        "D8 F12 sinks3", "N4 D8 F12 R4 window3 factor keyfactor weights",
        "N4 D8 F12 R4 window3 sinks1 factor keyfactor keycenter headgate modelnear",
        "D8 F12 window5 sinks2 factor keycenter headgate farall", "D8 F12 sinks3 farall",
        "D8 F12 softmax factor keyfactor",
        "N4 D8 F20 window5 sinks2 softmax factor keyfactor headgate"}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      const Call call(kernels::read_problem(std::string("B2 H4 G2 T40 ") + options), type);
      const at::NoGradGuard no_gradients;
      const Tensor whole = dark_attention(call.q, call.k, call.v, call.draws, call.o);
      const auto part = [](const Tensor& x, std::int64_t from, std::int64_t to) {
        return x.slice(2, from, to);
      };
      std::vector<Tensor> outputs;
      DarkState state;
      for (const auto& [from, to] : {std::pair<int, int>{0, 3}, {3, 20}}) {
        DarkPrefill read =
            dark_attention_prefill(part(call.q, from, to), part(call.k, from, to),
                                   part(call.v, from, to), call.draws, call.o, state);
        outputs.push_back(read.out);
        state = read.state;
      }
      for (int t = 20; t < 40; ++t) {
        outputs.push_back(dark_attention_step(part(call.q, t, t + 1), part(call.k, t, t + 1),
                                              part(call.v, t, t + 1), call.draws, call.o, state));
      }
      EXPECT_EQ(state[3].item<std::int64_t>(), 40);
      const double error = (at::cat(outputs, 2) - whole).abs().max().item<double>();
      EXPECT_LT(error, type == at::kDouble ? 1e-12 : 2e-5) << options << " " << type;
    }
  }
}

// out = g o_near + (1 - g) o_far with values of 1 for all, and the gate as it is: with values that
// tell near keys from far ones, the output is the share.
TEST(DarkAttentionOp, NearShareIsThatOfTheOutput) {
  const Call call(
      kernels::read_problem("B2 H4 G2 T200 D8 F12 sinks3 factor keycenter headgate modelnear"),
      at::kFloat);
  const at::NoGradGuard no_gradients;
  const Tensor v = at::zeros({2, 2, 200, 1});
  v.slice(2, 0, 3).fill_(1.0);
  const Tensor out = dark_attention(call.q, call.k, v, call.draws, call.o);
  const Tensor share = dark_near_share(call.q, call.k, call.draws, call.o);
  ASSERT_EQ(share.sizes(), out.sizes());
  EXPECT_LT((share - out).abs().max().item<double>(), 1e-5);
}

TEST(DarkAttentionOp, AStateMayPassFromKernelsToComposition) {
  const Call call(kernels::read_problem("B1 H2 G1 T20 D8 F12 window4 sinks1 factor"), at::kFloat);
  const at::NoGradGuard no_gradients;
  const auto read = [&](int from, int to, const DarkState& state) {
    return dark_attention_prefill(call.q.slice(2, from, to), call.k.slice(2, from, to),
                                  call.v.slice(2, from, to), call.draws, call.o, state);
  };
  const DarkPrefill first = read(0, 11, {}), plain = read(11, 20, first.state);
  const ForceComposition forced;
  EXPECT_LT((read(11, 20, first.state).out - plain.out).abs().max().item<double>(), 1e-5);
}

TEST(DarkAttentionOp, PrefillIsDifferentiable) {
  const Call call(kernels::read_problem("B1 H2 G1 T9 D8 F12 factor"), at::kFloat);
  const DarkPrefill read = dark_attention_prefill(call.q, call.k, call.v, call.draws, call.o, {});
  const auto gradients =
      torch::autograd::grad({(read.out * call.d_out).sum()}, {call.q, *call.o.factor});
  const auto want = call.run();
  EXPECT_LT((gradients[0] - want.at("d_q")).abs().max().item<double>(), 1e-4);
  EXPECT_LT((gradients[1] - want.at("d_factor")).abs().max().item<double>(), 1e-3);
}

TEST(DarkAttentionOp, AnyWindowBeyondTheTextIsTheWholeText) {
  Call call(kernels::read_problem("B1 H4 G1 N4 T20 D8 F12 factor"), at::kFloat);
  call.o.window = 20;
  const Tensor whole = dark_attention(call.q, call.k, call.v, call.draws, call.o);
  for (const std::int64_t window :
       {std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 62}) {
    call.o.window = window;
    EXPECT_TRUE(at::equal(dark_attention(call.q, call.k, call.v, call.draws, call.o), whole))
        << window;
  }
}

// The call as it stands must throw one line that holds `words`.
void expect_error(const Call& call, const std::string& words) {
  try {
    dark_attention(call.q, call.k, call.v, call.draws, call.o);
    ADD_FAILURE() << "no error; wanted one with: " << words;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(DarkAttentionOp, EveryMistakeHasItsLine) {
  const Call sound(kernels::read_problem("B1 H4 G2 T6 D8 F12 factor"), at::kFloat);
  Call call = sound;
  const auto wrong = [&](const std::string& words) {
    expect_error(call, words);
    call = sound;
  };
  call.q = at::zeros({1, 3, 6, 8}), wrong("3 query heads do not divide");
  call.q = at::zeros({4, 6, 8}), wrong("q has 3 dimensions");
  call.k = at::zeros({1, 2, 6, 7}), wrong("head sizes must agree");
  call.v = at::zeros({1, 2, 5, 8}), wrong("heads and time must agree");
  call.q = at::zeros({2, 4, 6, 8}), wrong("batches");
  call.k = at::zeros({1, 2, 6, 8}, at::Device(at::kMeta)), wrong("k is on meta but q is on cpu");
  call.draws = call.draws.to(at::kMeta), wrong("draws is on meta but q is on cpu");
  call.q = at::zeros({1, 4, 7, 8}), wrong("7 queries for 6 keys");
  call.q = at::zeros({1, 4, 0, 8}), wrong("no size may be 0");
  call.q = call.q.to(at::kHalf), wrong("k is Float but q is Half");
  call.draws = at::zeros({2, 0, 8}), wrong("at least one feature");
  call.draws = at::zeros({2, 12, 9}), wrong("the rank must be between 1 and the head size 8");
  call.draws = at::zeros({3, 12, 8}), wrong("its first size must be one of them");
  call.draws = at::zeros({2, 12, 4}), call.o.factor.reset(),
  wrong("without a factor the rank must be the head size");
  call.draws = call.draws.to(at::kDouble), wrong("draws is Double");
  call.o.factor = at::zeros({2, 8, 7}), wrong("factor is [2, 8, 7]");
  call.o.key_factor = at::zeros({2, 8, 8}), call.o.factor.reset(),
  wrong("key_factor is given without factor");
  call.o.scale = 0.0, wrong("scale is 0");
  call.o.scale = std::nan(""), wrong("scale is nan");
  call.o.window = -1, wrong("window is -1");
  call.o.window = 2, call.o.causal = false, wrong("needs causal");
  call.o.gate = at::zeros({4, 2}), wrong("a gate joins a window");
  call.o.window = 2, call.o.gate = at::zeros({3, 2}), wrong("gate is [3, 2]");
  call.o.log_weights = at::zeros({2, 11}), wrong("log_weights is [2, 11]");
  call.o.query_center = at::zeros({4, 8}), wrong("query_center is [4, 8]");
  call.o.key_center = at::zeros({4, 8}), wrong("key_center is [4, 8]");
}

TEST(DarkAttentionOp, EveryMistakeOfSoftmaxFeaturesHasItsLine) {
  const Call sound(kernels::read_problem("B1 H4 G2 T6 D8 F12 softmax factor keyfactor"),
                   at::kFloat);
  Call call = sound;
  const auto wrong = [&](const std::string& words) {
    expect_error(call, words);
    call = sound;
  };
  call.o.factor.reset(), wrong("needs factor and key_factor");
  call.o.key_factor.reset(), wrong("needs factor and key_factor");
  call.draws = at::zeros({2, 12, 8}), wrong("softmax features are not drawn");
  call.draws = at::zeros({2, 0, 7}), wrong("draws is [2, 0, 7]");
  call.o.factor = at::zeros({2, 0, 8}), wrong("factor is [2, 0, 8]");
  call.o.factor = at::zeros({2, 6, 7}), wrong("factor is [2, 6, 7]");
  call.o.key_factor = at::zeros({2, 5, 8}), wrong("key_factor is [2, 5, 8]");
  call.o.key_center = at::zeros({2, 8}), wrong("neither log_weights nor centres");
  call.o.softmax_features = false, wrong("at least one feature");
}

TEST(DarkAttentionOp, ForeignStatesAreRefused) {
  const Call call(kernels::read_problem("B1 H2 G1 T1 D8 F12"), at::kFloat);
  DarkState state = dark_attention_prefill(call.q, call.k, call.v, call.draws, call.o, {}).state;
  DarkState empty;
  EXPECT_THROW(dark_attention_step(call.q, call.k, call.v, call.draws, call.o, empty), Error);
  state[0] = at::zeros({1, 1, 13, 8});
  EXPECT_THROW(dark_attention_step(call.q, call.k, call.v, call.draws, call.o, state), Error);
}

}  // namespace
}  // namespace darkformer::ops::dark_attention_test
