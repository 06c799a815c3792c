// Every kind of attention with every option: gradients against the same module in double, decoding
// against the full pass, states that fork.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/mixer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <map>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer::mixer_test {
namespace {

using at::Tensor;

Tensor normal(at::IntArrayRef shape, std::uint32_t stream, double size = 1.0) {
  const Tensor x = at::empty(shape, at::kFloat);
  Philox(3, stream).fill_normal(
      std::span<float>(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  return x * size;
}

const MixerShape kShape = {2, 4, 2, 8, 0.3, 0.0, 0};

struct Kind {
  std::string name;
  AttentionSpec spec;
  MixerShape shape = kShape;
};

AttentionSpec features(AttentionKind kind, const std::function<void(AttentionSpec&)>& change = {}) {
  AttentionSpec spec;
  spec.kind = kind;
  spec.features = 12;
  spec.rank = 8;
  if (change) {
    change(spec);
  }
  return spec;
}

std::vector<Kind> all_kinds() {
  const auto dark = [](const std::function<void(AttentionSpec&)>& change) {
    return features(AttentionKind::kDark, change);
  };
  std::vector<Kind> kinds = {{"exact", {}}, {"exact_softcap", {}}, {"exact_window", {}}};
  kinds[1].shape.softcap = 3.0;
  kinds[2].shape.window = 5;
  AttentionSpec baseline;
  baseline.kind = AttentionKind::kConstant;
  kinds.push_back({"constant", baseline});
  kinds.push_back({"window", {.kind = AttentionKind::kWindow, .window = 4}});
  baseline.kind = AttentionKind::kRandom;
  kinds.push_back({"random", baseline});
  kinds.push_back({"performer", features(AttentionKind::kPerformer)});
  kinds.push_back({"performer_iid",
                   features(AttentionKind::kPerformer, [](auto& s) { s.orthogonal = false; })});
  kinds.push_back({"lfk", features(AttentionKind::kLfk)});
  kinds.push_back({"dark", dark({})});
  kinds.push_back({"dark_rank", dark([](auto& s) { s.rank = 3; })});
  kinds.push_back({"dark_query_head", dark([](auto& s) { s.placement = Placement::kQueryHead; })});
  kinds.push_back({"dark_layer", dark([](auto& s) { s.placement = Placement::kLayer; })});
  kinds.push_back({"dark_before", dark([](auto& s) { s.rope = RopeOrder::kBefore; })});
  kinds.push_back({"dark_centre", dark([](auto& s) { s.centre = true; })});
  kinds.push_back({"dark_window", dark([](auto& s) { s.window = 4, s.sinks = 2; })});
  kinds.push_back({"dark_gate", dark([](auto& s) {
                     s.window = 4, s.sinks = 1, s.gate = true, s.centre = true;
                   })});
  kinds.push_back({"dark_own_keys", dark([](auto& s) {
                     s.window = 4, s.gate = true, s.centre = true, s.rank = 3;
                     s.own_key_factor = true, s.near = NearKernel::kModel;
                   })});
  for (const Placement placement : {Placement::kKvHead, Placement::kQueryHead, Placement::kLayer}) {
    kinds.push_back({concat("dark_model_near_", static_cast<int>(placement)), dark([=](auto& s) {
                       s.window = 4, s.sinks = 1, s.gate = true, s.centre = true, s.rank = 3;
                       s.placement = placement, s.near = NearKernel::kModel;
                     })});
    kinds.push_back({concat("dark_far_all_", static_cast<int>(placement)), dark([=](auto& s) {
                       s.window = 4, s.sinks = 1, s.gate = true, s.centre = true;
                       s.placement = placement, s.far = FarKeys::kAll;
                     })});
  }
  const auto hedgehog = [](const std::function<void(AttentionSpec&)>& change) {
    AttentionSpec spec = features(AttentionKind::kHedgehog, change);
    spec.near = NearKernel::kModel;
    return spec;
  };
  kinds.push_back({"hedgehog", hedgehog({})});
  kinds.push_back({"hedgehog_layer", hedgehog([](auto& s) { s.placement = Placement::kLayer; })});
  kinds.push_back({"hedgehog_gate", hedgehog([](auto& s) {
                     s.window = 4, s.sinks = 1, s.gate = true, s.features = 16;
                     s.placement = Placement::kQueryHead;
                   })});
  for (const AttentionKind kind : {AttentionKind::kImportance, AttentionKind::kOprf,
                                   AttentionKind::kSderf, AttentionKind::kAderf}) {
    const std::string name(attention_kind_name(kind));
    kinds.push_back({name, features(kind)});
    kinds.push_back({name + "_gate", features(kind, [](auto& s) {
                       s.window = 4, s.sinks = 1, s.gate = true, s.centre = true;
                     })});
  }
  return kinds;
}

// The mixer with parameters and buffers moved off their starting values, so that no gradient is
// zero by symmetry.
std::shared_ptr<Mixer> stirred_mixer(const Kind& kind) {
  const std::shared_ptr<Mixer> mixer = make_mixer(kind.shape, kind.spec, 5, 0);
  const at::NoGradGuard no_gradients;
  std::uint32_t stream = 100;
  for (const auto& parameter : mixer->named_parameters()) {
    parameter.value().add_(normal(parameter.value().sizes(), stream++, 0.1));
  }
  for (const auto& buffer : mixer->named_buffers()) {
    buffer.value().add_(normal(buffer.value().sizes(), stream++, 0.1));
  }
  return mixer;
}

struct Inputs {
  explicit Inputs(at::ScalarType type, std::int64_t T = 23) {
    const auto make = [&](std::int64_t heads, std::uint32_t stream) {
      return normal({2, heads, T, 8}, stream).to(type).requires_grad_(true);
    };
    q = make(4, 1), k = make(2, 2), v = make(2, 3);
    d_out = make(4, 4).detach();
  }
  Tensor q, k, v, d_out;
};

std::map<std::string, Tensor> run(Mixer& mixer, const Inputs& in) {
  const Tensor out = mixer.forward(mixer.map_queries(in.q), mixer.map_keys(in.k), in.v);
  std::vector<std::string> names = {"q", "k", "v"};
  std::vector<Tensor> tensors = {in.q, in.k, in.v};
  for (const auto& parameter : mixer.named_parameters()) {
    names.push_back(parameter.key());
    tensors.push_back(parameter.value());
  }
  const auto gradients =
      torch::autograd::grad({(out * in.d_out).sum()}, tensors, {}, {}, false, true);
  std::map<std::string, Tensor> named = {{"out", out.detach()}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    named["d_" + names[i]] = gradients[i].defined() ? gradients[i] : at::zeros_like(tensors[i]);
  }
  return named;
}

class MixerKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(MixerKinds, GradientsEqualDoubleAutograd) {
  if (GetParam().spec.kind == AttentionKind::kRandom) {
    return;  // has its own test: its weights exist in float only
  }
  const std::shared_ptr<Mixer> mixer = stirred_mixer(GetParam()), exact = stirred_mixer(GetParam());
  exact->to(at::kDouble);
  const auto got = run(*mixer, Inputs(at::kFloat)), want = run(*exact, Inputs(at::kDouble));
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    const double size = std::max(tensor.abs().max().item<double>(), 1e-2);
    EXPECT_LT((got.at(name).to(at::kDouble) - tensor).abs().max().item<double>(), 1e-4 * size)
        << name;
  }
}

TEST_P(MixerKinds, DecodingEqualsTheFullPass) {
  const std::shared_ptr<Mixer> mixer = stirred_mixer(GetParam());
  const at::NoGradGuard no_gradients;
  const Inputs in(at::kFloat);
  const Tensor q = mixer->map_queries(in.q), k = mixer->map_keys(in.k);
  const Tensor whole = mixer->forward(q, k, in.v);
  const auto extend = [&](std::int64_t from, std::int64_t to, MixerState& state) {
    return mixer->extend(q.slice(2, from, to), k.slice(2, from, to), in.v.slice(2, from, to),
                         state);
  };
  MixerState state;
  std::vector<Tensor> outputs = {extend(0, 3, state), extend(3, 10, state)};
  MixerState fork;
  for (std::int64_t t = 10; t < 23; ++t) {
    if (t == 15) {
      fork = state.clone();
    }
    outputs.push_back(extend(t, t + 1, state));
  }
  EXPECT_LT((at::cat(outputs, 2) - whole).abs().max().item<double>(), 3e-5);
  EXPECT_LE(state.bytes(),
            2 * 2 * mixer->state_bytes(64));  // two sequences; a cache may have grown ahead
  for (std::int64_t t = 15; t < 23; ++t) {
    EXPECT_TRUE(at::equal(extend(t, t + 1, fork), outputs[static_cast<std::size_t>(t - 8)])) << t;
  }
}

// A row of a batch, chosen on the way from a row among others, goes on as if it had been alone.
TEST_P(MixerKinds, ChosenSequencesGoOnWithTheSameBits) {
  const std::shared_ptr<Mixer> mixer = stirred_mixer(GetParam());
  const at::NoGradGuard no_gradients;
  const Inputs in(at::kFloat);
  const Tensor q = mixer->map_queries(in.q), k = mixer->map_keys(in.k);
  const auto step = [&](const std::vector<std::int64_t>& rows, std::int64_t t, MixerState& state) {
    const Tensor chosen = at::tensor(rows, at::kLong);
    const auto of = [&](const Tensor& x) { return x.index_select(0, chosen).slice(2, t, t + 1); };
    return mixer->extend(of(q), of(k), of(in.v), state);
  };
  MixerState alone, both;
  std::vector<Tensor> want;
  for (std::int64_t t = 0; t < 23; ++t) {
    want.push_back(step({1}, t, alone));
    if (t < 12) {
      EXPECT_TRUE(at::equal(step({0, 1}, t, both).narrow(0, 1, 1), want.back())) << t;
    }
  }
  MixerState last = both.select(at::tensor({1}, at::kLong));
  MixerState mixed = both.select(at::tensor({1, 0, 1}, at::kLong));
  for (std::int64_t t = 12; t < 23; ++t) {
    const Tensor& expected = want[static_cast<std::size_t>(t)];
    EXPECT_TRUE(at::equal(step({1}, t, last), expected)) << t;
    const Tensor three = step({1, 0, 1}, t, mixed);
    EXPECT_TRUE(at::equal(three.narrow(0, 0, 1), expected)) << t;
    EXPECT_TRUE(at::equal(three.narrow(0, 2, 1), expected)) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MixerKinds, ::testing::ValuesIn(all_kinds()), [](const auto& info) {
  return info.param.name;
});

TEST(RandomMixer, IsAPureFunctionOfItsNumbers) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kRandom;
  const std::shared_ptr<Mixer> mixer = make_mixer(kShape, spec, 5, 0);
  const Inputs in(at::kFloat, 9);
  // The weights, read off by mixing one-hot values; rows sum to one and see nothing later.
  const Tensor values =
      at::eye(9).reshape({1, 1, 9, 9}).expand({1, 2, 9, 9}).contiguous().requires_grad_(true);
  const Tensor weights = mixer->forward(in.q, in.k, values);
  EXPECT_LT((weights.sum(-1) - 1.0).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(weights.triu(1).abs().max().item<double>(), 0.0);
  EXPECT_TRUE(at::equal(weights, make_mixer(kShape, spec, 5, 0)->forward(in.q, in.k, values)));
  EXPECT_FALSE(at::equal(weights, make_mixer(kShape, spec, 6, 0)->forward(in.q, in.k, values)));
  mixer->redraw(5, 1);
  EXPECT_FALSE(at::equal(weights, mixer->forward(in.q, in.k, values)));
  // dv = sum over the heads of a kv head of W^T d_out
  const Tensor d_out = normal({1, 4, 9, 9}, 8);
  const Tensor gradient = torch::autograd::grad({(weights * d_out).sum()}, {values})[0];
  const Tensor want =
      at::matmul(weights.detach().transpose(-1, -2), d_out).reshape({1, 2, 2, 9, 9}).sum(2);
  EXPECT_LT((gradient - want).abs().max().item<double>(), 1e-5);
}

TEST(Mixer, RedrawKeepsLearnedAndFittedDraws) {
  for (const AttentionKind kind :
       {AttentionKind::kPerformer, AttentionKind::kLfk, AttentionKind::kSderf}) {
    const std::shared_ptr<Mixer> mixer = make_mixer(kShape, features(kind), 5, 0);
    const Inputs in(at::kFloat);
    const Tensor before = mixer->forward(in.q, in.k, in.v).detach();
    const at::NoGradGuard no_gradients;
    mixer->redraw(5, 1);
    EXPECT_EQ(at::equal(before, mixer->forward(in.q, in.k, in.v)),
              kind != AttentionKind::kPerformer);
    mixer->redraw(5, 0);
    EXPECT_TRUE(at::equal(before, mixer->forward(in.q, in.k, in.v)));
  }
}

TEST(Mixer, ImpossibleSpecsAreRefused) {
  EXPECT_THROW(
      make_mixer(kShape, features(AttentionKind::kDark, [](auto& s) { s.rank = 9; }), 1, 0), Error);
  EXPECT_THROW(
      make_mixer(kShape, features(AttentionKind::kDark, [](auto& s) { s.features = 0; }), 1, 0),
      Error);
  EXPECT_THROW(
      make_mixer(kShape, features(AttentionKind::kDark, [](auto& s) { s.gate = true; }), 1, 0),
      Error);
  EXPECT_THROW(
      make_mixer(kShape, features(AttentionKind::kAderf, [](auto& s) { s.rank = 4; }), 1, 0),
      Error);
  const auto before = [](AttentionSpec& s) { s.rope = RopeOrder::kBefore; };
  EXPECT_THROW(make_mixer(kShape, features(AttentionKind::kAderf, before), 1, 0), Error);
  EXPECT_THROW(
      make_mixer(kShape, features(AttentionKind::kDark, [&](auto& s) { before(s), s.rank = 4; }), 1,
                 0),
      Error);
  EXPECT_THROW(
      make_mixer(kShape,
                 features(AttentionKind::kDark,
                          [&](auto& s) { before(s), s.placement = Placement::kQueryHead; }),
                 1, 0),
      Error);
}

}  // namespace
}  // namespace darkformer::mixer_test
