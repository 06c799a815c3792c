// Saving and loading models: lossless, by name, trained parts as float32.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/model_folder.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/checkpoint/tensor_names.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::model_folder_test {
namespace {

namespace fs = std::filesystem;

std::map<std::string, at::Tensor> tensors_of(const Decoder& model) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : model.named_parameters()) {
    tensors[entry.key()] = entry.value();
  }
  for (const auto& entry : model.named_buffers()) {
    tensors[entry.key()] = entry.value();
  }
  return tensors;
}

ModelConfig converted_config(Family family) {
  ModelConfig config = with_attention(small_config(family), 0, small_dark_spec());
  config = with_attention(config, 2, {.kind = AttentionKind::kConstant});
  config.seed = 11;
  config.draw_index = 3;
  return config;
}

void expect_just_the_expected_tensors(const ModelConfig& config) {
  auto tensors = tensors_of(*small_decoder(config));
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    const auto found = tensors.find(expected.name);
    ASSERT_NE(found, tensors.end()) << expected.name;
    EXPECT_EQ(found->second.sizes().vec(), expected.shape) << expected.name;
    tensors.erase(found);
  }
  EXPECT_TRUE(tensors.empty()) << tensors.begin()->first;
}

TEST(ModelFolder, ModelsHaveJustTheExpectedTensors) {
  for (const Family family : all_families()) {
    expect_just_the_expected_tensors(converted_config(family));
  }
}

TEST(ModelFolder, EveryKindHasJustTheExpectedTensors) {
  for (int i = 0; i <= static_cast<int>(AttentionKind::kRandom); ++i) {
    const auto kind = static_cast<AttentionKind>(i);
    SCOPED_TRACE(attention_kind_name(kind));
    for (const Placement placement :
         {Placement::kKvHead, Placement::kQueryHead, Placement::kLayer}) {
      ModelConfig config = small_config(Family::kGemma2);
      AttentionSpec& spec = config.attention[1];
      spec.kind = kind;
      spec.window = kind == AttentionKind::kWindow ? 3 : 0;
      if (has_features(kind)) {
        spec = {.kind = kind,
                .features = 12,
                .rank = kind == AttentionKind::kDark ? 6 : 8,
                .placement = placement,
                .window = 3,
                .sinks = 1,
                .near = usual_near_kernel(kind),
                .centre = has_draws(kind),
                .gate = true};
      }
      expect_just_the_expected_tensors(config);
    }
  }
}

TEST(ModelFolder, SavingAndLoadingKeepsEveryBit) {
  for (const Family family : all_families()) {
    for (const std::uint64_t shard_bytes : {0, 20'000}) {
      const ScratchFolder scratch;
      ModelConfig config = converted_config(family);
      config.dtype = "float32";
      const auto model = small_decoder(config);
      save_model(scratch.path() / "model", *model, {.shard_bytes = shard_bytes});
      const auto loaded = load_model(scratch.path() / "model");
      EXPECT_EQ(loaded->config(), config);
      const auto want = tensors_of(*model), got = tensors_of(*loaded);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, tensor] : want) {
        EXPECT_TRUE(got.at(name).equal(tensor)) << name;
        EXPECT_FALSE(got.at(name).requires_grad()) << name;
      }
      EXPECT_EQ(fingerprint(*loaded), fingerprint(*model));
    }
  }
}

TEST(ModelFolder, OnlyTrainedPartsAreCopiedAndAskForGradients) {
  const ScratchFolder scratch;
  ModelConfig config = converted_config(Family::kGemma2);
  config.attention[2] = AttentionSpec{};  // constant attention has no use for queries
  const auto narrow = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    return initial_weights(1)(name, shape).detach().to(at::kBFloat16);
  };
  save_model(scratch.path(), Decoder(config, narrow));
  const auto trains = [](const std::string& name) {
    return name.find("q_proj") != std::string::npos ||
           name.find("dark.factor") != std::string::npos;
  };
  const auto model = load_model(scratch.path(), {.trains = trains});
  EXPECT_EQ(model->config().dtype, "bfloat16");
  for (const auto& entry : model->named_parameters()) {
    const bool is_dark = entry.key().find(".dark.") != std::string::npos;
    EXPECT_EQ(entry.value().requires_grad(), trains(entry.key())) << entry.key();
    EXPECT_EQ(entry.value().scalar_type(),
              trains(entry.key()) || is_dark ? at::kFloat : at::kBFloat16)
        << entry.key();
  }
  // Gradients reach the trained parts through frozen 16-bit weights.
  const at::Tensor ids = at::arange(8).view({1, 8});
  model->loss(model->forward(ids), ids).mean().backward();
  for (const auto& entry : model->named_parameters()) {
    EXPECT_EQ(entry.value().grad().defined(), trains(entry.key())) << entry.key();
  }
}

TEST(ModelFolder, CompanionsAreCopied) {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path() / "from");
  std::ofstream(scratch.path() / "from" / "tokenizer.json") << "{}";
  std::ofstream(scratch.path() / "from" / "notes.txt") << "mine";
  save_model(scratch.path() / "to", *small_decoder(small_config(Family::kGemma1)),
             {.companions = scratch.path() / "from"});
  EXPECT_TRUE(fs::exists(scratch.path() / "to" / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(scratch.path() / "to" / "notes.txt"));
}

TEST(ModelFolder, ReplacesModelsOnly) {
  const ScratchFolder scratch;
  const auto model = small_decoder(small_config(Family::kGemma1));
  const fs::path folder = scratch.path() / "folder", note = folder / "notes.txt";
  fs::create_directory(folder);
  save_model(folder, *model);
  save_model(folder, *model);
  fs::remove(folder / "config.json");
  std::ofstream(note) << "mine";
  EXPECT_THROW(save_model(folder, *model), Error);
  EXPECT_TRUE(fs::exists(note));
}

TEST(ModelFolder, MappedWeightsOutliveTheFolder) {
  const ScratchFolder scratch;
  const auto model = small_decoder(small_config(Family::kGemma1));
  save_model(scratch.path() / "model", *model);
  const auto loaded = load_model(scratch.path() / "model");
  fs::remove_all(scratch.path() / "model");
  const at::Tensor ids = at::arange(8).view({1, 8});
  EXPECT_TRUE(loaded->forward(ids).equal(model->forward(ids)));
}

}  // namespace
}  // namespace darkformer::model_folder_test
