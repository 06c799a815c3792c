// States, caches and weights to decode with.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bench_decode_runs.h"

#include <ATen/ATen.h>

#include <atomic>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/evaluation/own_text.h"
#include "darkformer/kernels/exact_attention.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/initial_weights.h"

namespace darkformer {
namespace {

using kernels::contiguous_heads;
using kernels::DarkAttention;
using kernels::DarkProblem;
using kernels::normal_values;

constexpr std::int64_t kPrompt = 16;
// Attention of normal values is of order one: a wrong kernel is off by far more than this.
constexpr double kLogitTolerance = 1e-3;

DarkProblem problem_of(std::int64_t heads,
                       std::int64_t tokens,
                       std::int64_t size,
                       std::int64_t features) {
  return kernels::read_problem(
      concat("B1 H", heads, " G", heads, " T", tokens, " D", size, " F", features));
}

kernels::ExactAttention exact_shape(std::size_t heads, std::size_t size, std::size_t context) {
  kernels::ExactAttention shape;
  shape.B = 1, shape.H = heads, shape.G = heads, shape.T = 1, shape.S = context, shape.D = size,
  shape.Dv = size, shape.scale = 1.0F / std::sqrt(static_cast<float>(size));
  return shape;
}

void expect_near(const char* what, double got, double want) {
  require(std::abs(got - want) < kLogitTolerance, "bench decode: ", what, " gives ", got,
          " instead of ",
          want);  // fails for NaN
}

// One head, token by token, against the reference over all tokens at once.
void check_features(std::int64_t size, std::int64_t features) {
  constexpr std::size_t kTokens = 40;
  const DarkProblem p = problem_of(1, kTokens, size, features);
  const std::vector<double> want = kernels::dark_attention_ref(p.shape, p.inputs(), nullptr).o;
  DarkAttention shape = p.shape;
  shape.T = shape.S = 1;
  std::vector<float> sum(shape.F * shape.Dv), weight(shape.F), log_scale(1), values(shape.Dv),
      out(shape.Dv);
  std::int64_t position = 0;
  kernels::DarkState state;
  state.sum = sum.data(), state.weight = weight.data(), state.log_scale = log_scale.data(),
  state.position = &position, state.value_sum = values.data();
  kernels::clear_dark_state(shape, state);
  for (std::size_t t = 0; t < kTokens; ++t) {
    kernels::DarkInputs in = p.inputs();
    in.q.data += t * shape.D, in.k.data += t * shape.D, in.v.data += t * shape.Dv;
    kernels::dark_attention_step(shape, in, state, contiguous_heads(out.data(), 1, 1, shape.Dv));
    for (std::size_t i = 0; i < shape.Dv; ++i) {
      expect_near("a step of feature attention", out[i], want[t * shape.Dv + i]);
    }
  }
}

void check_exact(std::size_t size) {
  constexpr std::size_t kTokens = 300;
  const std::vector<float> q = normal_values(size, 1, 1.0F),
                           k = normal_values(kTokens * size, 2, 1.0F),
                           v = normal_values(kTokens * size, 3, 1.0F);
  std::vector<float> out(size);
  std::vector<double> want(size), lse(1);
  const kernels::ExactAttention shape = exact_shape(1, size, kTokens);
  const kernels::AttentionInputs in = {contiguous_heads(q.data(), 1, 1, size),
                                       contiguous_heads(k.data(), 1, kTokens, size),
                                       contiguous_heads(v.data(), 1, kTokens, size)};
  kernels::exact_attention(shape, in, {contiguous_heads(out.data(), 1, 1, size), {}});
  kernels::exact_attention_ref(
      shape, in,
      {contiguous_heads(want.data(), 1, 1, size), contiguous_heads(lse.data(), 1, 1, 1)});
  for (std::size_t i = 0; i < size; ++i) {
    expect_near("a step of exact attention", out[i], want[i]);
  }
}

// A Gemma 1 of 134 million parameters, 267 MB: larger than any cache.
ModelConfig large_config() {
  ModelConfig config = default_model_config(Family::kGemma1);
  config.vocab_size = 16384;
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.layers = 8;
  config.heads = 4;
  config.kv_heads = 1;
  config.head_dim = 256;
  config.query_pre_attn_scalar = 256;
  config.layer_kinds = default_layer_kinds(config.family, config.layers, 1);
  config.attention.assign(static_cast<std::size_t>(config.layers), AttentionSpec{});
  check_model_config(config, "bench decode");
  return config;
}

std::shared_ptr<Decoder> random_model() {
  const ParameterMaker normal = initial_weights(1, 0.02);
  return std::make_shared<Decoder>(
      large_config(), [&](const std::string& name, const std::vector<std::int64_t>& shape) {
        const at::Tensor weight = normal(name, shape).detach();
        return shape.size() > 1 ? weight.to(at::kBFloat16) : weight;
      });
}

// Eight independent sums, which compilers turn into vectors.
std::uint64_t sum_words(const std::uint64_t* words, std::size_t begin, std::size_t end) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = begin; i + 8 <= end; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] += words[i + j];
    }
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

}  // namespace

FeatureDecode::FeatureDecode(std::int64_t heads,
                             std::int64_t size,
                             std::int64_t features,
                             std::int64_t context)
    : token_(problem_of(heads, 1, size, features)) {
  const DarkAttention& s = token_.shape;
  sum_.resize(s.N * s.F * s.Dv), weight_.resize(s.N * s.F), log_scale_.resize(s.N),
      value_sum_.resize(s.N * s.Dv), out_.resize(s.H * s.Dv);
  const DarkProblem prompt = problem_of(heads, kPrompt, size, features);
  std::vector<float> o(prompt.d_o.size());
  kernels::clear_dark_state(prompt.shape, state());
  kernels::dark_attention_prefill(prompt.shape, prompt.inputs(), state(),
                                  contiguous_heads(o.data(), s.H, kPrompt, s.Dv));
  position_ = context;
}

kernels::DarkState FeatureDecode::state() {
  kernels::DarkState state;
  state.sum = sum_.data(), state.weight = weight_.data(), state.log_scale = log_scale_.data(),
  state.position = &position_, state.value_sum = value_sum_.data();
  return state;
}

void FeatureDecode::step() {
  const DarkAttention& s = token_.shape;
  kernels::dark_attention_step(s, token_.inputs(), state(),
                               contiguous_heads(out_.data(), s.H, 1, s.Dv));
}

std::int64_t FeatureDecode::state_bytes() const {
  return static_cast<std::int64_t>(
      sizeof(float) * (sum_.size() + weight_.size() + log_scale_.size() + value_sum_.size()) +
      sizeof(position_));
}

ExactDecode::ExactDecode(std::int64_t heads, std::int64_t size, std::int64_t context)
    : heads_(static_cast<std::size_t>(heads)),
      size_(static_cast<std::size_t>(size)),
      context_(static_cast<std::size_t>(context)),
      q_(normal_values(heads_ * size_, 1, 1.0F)),
      k_(normal_values(heads_ * context_ * size_, 2, 1.0F)),
      v_(normal_values(heads_ * context_ * size_, 3, 1.0F)),
      out_(heads_ * size_) {}

void ExactDecode::step() const {
  kernels::exact_attention(exact_shape(heads_, size_, context_),
                           {contiguous_heads(q_.data(), heads_, 1, size_),
                            contiguous_heads(k_.data(), heads_, context_, size_),
                            contiguous_heads(v_.data(), heads_, context_, size_)},
                           {contiguous_heads(out_.data(), heads_, 1, size_), {}});
}

std::int64_t ExactDecode::cache_bytes() const {
  return static_cast<std::int64_t>(sizeof(float) * (k_.size() + v_.size()));
}

void check_decode(std::int64_t size, std::int64_t features) {
  check_features(size, features);
  check_exact(static_cast<std::size_t>(size));
}

ModelDecode::ModelDecode() : ModelDecode(random_model()) {}

ModelDecode::ModelDecode(const std::filesystem::path& folder) : ModelDecode(load_model(folder)) {}

ModelDecode::ModelDecode(std::shared_ptr<Decoder> model) : model_(std::move(model)) {
  for (const auto& entry : model_->named_parameters()) {
    weights_.push_back(entry.value().detach());
  }
  const at::Tensor ids = at::arange(kPrompt, at::kLong).unsqueeze(0);
  const at::NoGradGuard no_gradients;
  read_tokens(*model_, ids, prompt_);
}

void ModelDecode::step() {
  const at::NoGradGuard no_gradients;
  DecoderState state = prompt_.clone();
  const at::Tensor hidden = model_->extend(at::ones({1, 1}, at::kLong), state);
  model_->logits(hidden);
}

void ModelDecode::sample(std::int64_t batch, std::int64_t tokens) {
  OwnTextOptions options;
  options.tokens = batch * tokens, options.batch = batch, options.context = 1 + tokens;
  options.sampler.temperature = 1.0;
  options.start = {model_->config().bos_id};
  write_own_text(
      *model_, options, {}, [](std::int64_t, const std::vector<std::int64_t>&) {},
      [](std::int64_t) {});
}

void ModelDecode::read_weights() const {
  std::atomic<std::uint64_t> total{0};
  const auto workers = static_cast<std::size_t>(threads());
  parallel_for(workers, [&](std::size_t t) {
    std::uint64_t sum = 0;
    for (const at::Tensor& weight : weights_) {
      const std::size_t words = weight.nbytes() / sizeof(std::uint64_t);
      sum += sum_words(static_cast<const std::uint64_t*>(weight.data_ptr()), words * t / workers,
                       words * (t + 1) / workers);
    }
    total += sum;  // a result that is used: the loops cannot be left out
  });
}

std::int64_t ModelDecode::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& weight : weights_) {
    bytes += static_cast<std::int64_t>(weight.nbytes());
  }
  return bytes;
}

}  // namespace darkformer
