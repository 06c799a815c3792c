// Every family against the numbers of other implementations (transformers).
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/checkpoint/golden_model.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/model/decoder.h"

namespace darkformer::golden_test {
namespace {

namespace fs = std::filesystem;

at::Tensor logits_of(Decoder& model, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  return model.logits(model.forward(ids));
}

at::Tensor last_three(const at::Tensor& logits) {
  return logits.narrow(1, logits.size(1) - 3, 3);
}

void expect_greedy(const GoldenModel& golden) {
  const auto model = load_model(golden.folder);
  const auto prompt = golden.facts["greedy_prompt"].get<std::vector<std::int64_t>>();
  const auto want = golden.facts["greedy_ids"].get<std::vector<std::int64_t>>();
  DecoderState state;
  model->extend(at::tensor(prompt).unsqueeze(0), state);
  std::vector<std::int64_t> got;
  while (got.size() < want.size()) {
    got.push_back(model->logits(state.hidden).argmax(-1).item<std::int64_t>());
    model->extend(at::tensor(got.back()).view({1, 1}), state);
  }
  EXPECT_EQ(got, want);
}

void expect_loss_and_gradients(const GoldenModel& golden) {
  const auto model = load_model(golden.folder, {.trains = [](const std::string&) { return true; }});
  const at::Tensor ids = golden.tensor("input_ids");
  const std::int64_t T = ids.size(1);
  const at::Tensor hidden = model->forward(ids.narrow(1, 0, T - 1));
  const at::Tensor loss = model->loss(hidden, ids.narrow(1, 1, T - 1)).mean();
  const auto want = golden.facts["loss"].get<double>();
  EXPECT_NEAR(loss.item<double>(), want, kGoldenLoss * want);
  loss.backward();
  for (const auto& entry : model->named_parameters()) {
    const at::Tensor gradient = entry.value().grad().flatten();
    const at::Tensor sample = golden.tensor("gradient." + entry.key());
    const std::int64_t stride = std::max<std::int64_t>(1, gradient.numel() / 128);
    const auto largest = golden.tensor("gradient_max." + entry.key()).item<double>();
    EXPECT_LT(largest_difference(gradient.slice(0, 0, gradient.numel(), stride), sample),
              kGoldenGradients * largest)
        << entry.key();
  }
}

class GoldenModels : public ::testing::TestWithParam<const char*> {
 protected:
  GoldenModel golden_{GetParam()};
};

TEST_P(GoldenModels, Logits) {
  const auto model = load_model(golden_.folder);
  EXPECT_EQ(model->embedding()->value().scalar_type(), at::kBFloat16) << "weights stay as stored";
  const at::Tensor ids = golden_.tensor("input_ids"), want = golden_.tensor("logits");
  EXPECT_LT(largest_difference(logits_of(*model, ids), want), kGoldenLogits);
  DecoderState state;
  const at::Tensor read = model->logits(model->extend(ids, state));
  EXPECT_LT(largest_difference(read, want), kGoldenLogits);
}

TEST_P(GoldenModels, LogitsWithARoundedEmbeddingScale) {
  const auto model = load_model(golden_.folder, {.embed_scale = EmbedScale::kBfloat16});
  const at::Tensor got = last_three(logits_of(*model, golden_.tensor("input_ids")));
  EXPECT_LT(largest_difference(got, golden_.tensor("logits_bf16scale")), kGoldenLogits);
}

TEST_P(GoldenModels, GreedyContinuationOnAState) {
  expect_greedy(golden_);
}

TEST_P(GoldenModels, LossAndEveryGradient) {
  expect_loss_and_gradients(golden_);
}

TEST_P(GoldenModels, SavedAsFloat32AndInShardsItIsTheSame) {
  const at::Tensor ids = golden_.tensor("input_ids");
  const at::Tensor want = logits_of(*load_model(golden_.folder), ids);
  const ScratchFolder scratch;
  const auto wide = load_model(golden_.folder, {.trains = [](const std::string&) { return true; }});
  save_model(scratch.path() / "f32", *wide);
  save_model(scratch.path() / "sharded", *load_model(golden_.folder), {.shard_bytes = 100'000});
  EXPECT_TRUE(fs::exists(scratch.path() / "sharded" / "model.safetensors.index.json"));
  for (const char* name : {"f32", "sharded"}) {
    const auto model = load_model(scratch.path() / name);
    EXPECT_LT(largest_difference(logits_of(*model, ids), want), kGoldenLogits) << name;
  }
  EXPECT_EQ(load_model(scratch.path() / "f32")->config().dtype, "float32");
}

INSTANTIATE_TEST_SUITE_P(Families,
                         GoldenModels,
                         ::testing::Values("gemma1", "gemma2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

// What transformers computed: agreement to a hundred-thousandth of the largest logit.
class TransformersModels : public ::testing::TestWithParam<const char*> {
 protected:
  void expect_logits(const at::Tensor& got) const {
    const at::Tensor want = golden_.tensor("logits");
    EXPECT_LT(largest_difference(got, want), 1e-5 * want.abs().max().item<double>());
  }

  GoldenModel golden_{GetParam()};
};

TEST_P(TransformersModels, LogitsInOnePassAndInPieces) {
  const auto model = load_model(golden_.folder);
  const at::Tensor ids = golden_.tensor("input_ids");
  expect_logits(logits_of(*model, ids));
  if (model->config().rope_full.kind == RopeKind::kDynamic) {
    return;  // its angles depend on the length so far: pieces are another function
  }
  for (const std::int64_t piece : {std::int64_t{1}, std::int64_t{5}, ids.size(1)}) {
    DecoderState state;
    std::vector<at::Tensor> parts;
    for (std::int64_t begin = 0; begin < ids.size(1); begin += piece) {
      const std::int64_t count = std::min(piece, ids.size(1) - begin);
      parts.push_back(model->logits(model->extend(ids.narrow(1, begin, count), state)));
    }
    expect_logits(at::cat(parts, 1));
  }
}

TEST_P(TransformersModels, TheOlderConfigIsTheSameModel) {
  const fs::path older = golden_.folder / "config_v4.json";
  if (!fs::exists(older)) {
    return;
  }
  const ScratchFolder scratch;
  fs::copy(golden_.folder, scratch.path() / "model");
  fs::copy_file(older, scratch.path() / "model" / "config.json",
                fs::copy_options::overwrite_existing);
  expect_logits(logits_of(*load_model(scratch.path() / "model"), golden_.tensor("input_ids")));
}

TEST_P(TransformersModels, GreedyContinuationOnAState) {
  expect_greedy(golden_);
}

TEST_P(TransformersModels, LossAndEveryGradient) {
  expect_loss_and_gradients(golden_);
}

TEST_P(TransformersModels, SavedItIsTheSame) {
  const ScratchFolder scratch;
  const auto model = load_model(golden_.folder);
  const at::Tensor ids = golden_.tensor("input_ids");
  save_model(scratch.path() / "saved", *model, {.shard_bytes = 20'000});
  const auto saved = load_model(scratch.path() / "saved");
  EXPECT_TRUE(logits_of(*saved, ids).equal(logits_of(*model, ids)));
}

INSTANTIATE_TEST_SUITE_P(Families,
                         TransformersModels,
                         ::testing::Values("gemma4_ple",
                                           "gemma4_keqv",
                                           "gemma4_multimodal",
                                           "llama_tied",
                                           "llama3_rope",
                                           "llama_bias",
                                           "llama_linear",
                                           "llama_dynamic",
                                           "llama_yarn",
                                           "llama_bf16",
                                           "mistral_window",
                                           "mistral_full",
                                           "qwen2_tied",
                                           "qwen2_window",
                                           "qwen2_yarn",
                                           "qwen3_untied",
                                           "qwen3_sharded"),
                         [](const auto& test) { return std::string(test.param); });

// The golden Gemma 3 with its global layers stretched by 8, as a plain folder.
void write_stretched(const GoldenModel& golden, const fs::path& folder) {
  fs::create_directory(folder);
  fs::copy_file(golden.folder / "model.safetensors", folder / "model.safetensors");
  Json config = read_json(golden.folder / "config.json");
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  std::ofstream(folder / "config.json") << config;
}

TEST(GoldenVariants, LinearRopeScaling) {
  const GoldenModel golden("gemma3");
  const ScratchFolder scratch;
  write_stretched(golden, scratch.path() / "model");
  const auto model = load_model(scratch.path() / "model");
  const at::Tensor got = last_three(logits_of(*model, golden.tensor("input_ids")));
  EXPECT_LT(largest_difference(got, golden.tensor("logits_ropescale8")), kGoldenLogits);
}

TEST(GoldenVariants, MultimodalNamesAndNestedConfig) {
  const GoldenModel golden("gemma3");
  const ScratchFolder scratch;
  write_stretched(golden, scratch.path() / "plain");
  const fs::path folder = scratch.path() / "multimodal";
  fs::create_directory(folder);
  const SafetensorsFile plain(scratch.path() / "plain" / "model.safetensors");
  std::vector<TensorSource> renamed;
  for (const TensorView& tensor : plain.tensors()) {
    renamed.push_back(copy_of(tensor));
    renamed.back().name = "language_model." + tensor.name;
  }
  write_safetensors(folder / "model.safetensors", renamed);
  const Json text = read_json(scratch.path() / "plain" / "config.json");
  std::ofstream(folder / "config.json")
      << Json{{"model_type", "gemma3"},
              {"architectures", {"Gemma3ForConditionalGeneration"}},
              {"text_config", text}};
  const auto model = load_model(folder);
  const at::Tensor ids = golden.tensor("input_ids");
  EXPECT_LT(
      largest_difference(last_three(logits_of(*model, ids)), golden.tensor("logits_ropescale8")),
      kGoldenLogits);
  // Saved, it is the language model alone.
  save_model(scratch.path() / "saved", *model);
  const Json saved = read_json(scratch.path() / "saved" / "config.json");
  EXPECT_EQ(saved["model_type"], "gemma3_text");
  EXPECT_EQ(saved["architectures"], Json::array({"Gemma3ForCausalLM"}));
  EXPECT_TRUE(logits_of(*load_model(scratch.path() / "saved"), ids).equal(logits_of(*model, ids)));
}

}  // namespace
}  // namespace darkformer::golden_test
