// Names and shapes of the three families, and folders that hold something else.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/tensor_names.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/model/model_config.h"

namespace darkformer::tensor_names_test {
namespace {

ModelConfig odd_config(Family family) {
  ModelConfig config = default_model_config(family);
  config.vocab_size = 12;
  config.hidden_size = 6;
  config.intermediate_size = 10;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 4;
  config.query_pre_attn_scalar = 4;
  config.layer_kinds = default_layer_kinds(family, 2, 2);
  config.attention.assign(2, {});
  return config;
}

ModelConfig converted_config() {
  ModelConfig config = odd_config(Family::kGemma2);
  config.attention[1] = {.kind = AttentionKind::kDark,
                         .features = 5,
                         .rank = 3,
                         .window = 2,
                         .centre = true,
                         .gate = true};
  return config;
}

struct Stored {
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;
  char fill = 'x';
};
using Folder = std::map<std::string, Stored>;

Folder folder_of(const ModelConfig& config, NameStyle style = NameStyle::kPlain) {
  Folder tensors;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    tensors[stored_name(expected.name, style)] = {expected.is_dark ? DType::kF32 : DType::kBF16,
                                                  expected.shape, 'x'};
  }
  return tensors;
}

class TensorNamesTest : public testing::Test {
 protected:
  WeightFiles write(const Folder& tensors) const {
    std::vector<TensorSource> sources;
    for (const auto& [name, stored] : tensors) {
      const std::string content(*tensor_bytes(stored.dtype, stored.shape), stored.fill);
      sources.push_back({name, stored.dtype, stored.shape,
                         [content] { return std::as_bytes(std::span(content)); }});
    }
    write_weights(folder_.path(), std::move(sources));
    return WeightFiles(folder_.path());
  }
  std::string error_of(const ModelConfig& config, const Folder& tensors) const {
    const WeightFiles files = write(tensors);
    try {
      find_model_tensors(config, files);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with((folder_.path() / "model.safetensors").string())) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
      return message;
    }
    return "no error";
  }
  void expect_error(const ModelConfig& config, const Folder& tensors, const std::string& reason) {
    const std::string message = error_of(config, tensors);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  ScratchFolder folder_;
};

TEST(ExpectedTensors, CountsAndSizesAgreeWithTheParameterCount) {
  for (const auto& [family, per_layer] :
       {std::pair{Family::kGemma1, 9}, {Family::kGemma2, 11}, {Family::kGemma3, 13}}) {
    const ModelConfig config = default_model_config(family);
    const auto tensors = expected_tensors(config);
    EXPECT_EQ(tensors.size(), static_cast<std::size_t>(2 + per_layer * config.layers));
    std::int64_t parameters = 0;
    std::set<std::string> names;
    for (const ExpectedTensor& tensor : tensors) {
      std::int64_t count = 1;
      for (const std::int64_t size : tensor.shape) {
        count *= size;
      }
      parameters += count;
      names.insert(tensor.name);
    }
    EXPECT_EQ(parameters, parameter_count(config));
    EXPECT_EQ(names.size(), tensors.size());
  }
}

TEST(ExpectedTensors, NamesAndShapesByHand) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const ExpectedTensor& tensor : expected_tensors(odd_config(Family::kGemma3))) {
    shapes[tensor.name] = tensor.shape;
  }
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (Shape{12, 6}));
  EXPECT_EQ(shapes.at("model.norm.weight"), (Shape{6}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_proj.weight"), (Shape{16, 6}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.k_proj.weight"), (Shape{8, 6}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.v_proj.weight"), (Shape{8, 6}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.o_proj.weight"), (Shape{6, 16}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.q_norm.weight"), (Shape{4}));
  EXPECT_EQ(shapes.at("model.layers.1.self_attn.k_norm.weight"), (Shape{4}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.gate_proj.weight"), (Shape{10, 6}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.up_proj.weight"), (Shape{10, 6}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.down_proj.weight"), (Shape{6, 10}));
  EXPECT_EQ(shapes.at("model.layers.1.input_layernorm.weight"), (Shape{6}));
  EXPECT_EQ(shapes.at("model.layers.1.post_attention_layernorm.weight"), (Shape{6}));
  EXPECT_EQ(shapes.at("model.layers.1.pre_feedforward_layernorm.weight"), (Shape{6}));
  EXPECT_EQ(shapes.at("model.layers.1.post_feedforward_layernorm.weight"), (Shape{6}));
}

TEST(ExpectedTensors, ParametersOfConvertedLayers) {
  ModelConfig config = converted_config();
  const auto describe = [&] {
    std::string text;
    for (const ExpectedTensor& tensor : dark_tensors(config, 1)) {
      EXPECT_TRUE(tensor.is_dark);
      text += tensor.name.substr(std::string("model.layers.1.self_attn.dark.").size()) +
              shape_text(tensor.shape) + " ";
    }
    return text;
  };
  EXPECT_TRUE(dark_tensors(config, 0).empty());
  EXPECT_EQ(describe(),
            "draws[2, 5, 3] factor[2, 3, 4] query_center[2, 4] key_center[2, 4] gate_scale[4] "
            "gate_bias[4] gate_weight[4, 3] ");
  config.attention[1] = {
      .kind = AttentionKind::kAderf, .features = 5, .rank = 4, .placement = Placement::kQueryHead};
  EXPECT_EQ(describe(), "draws[4, 5, 4] factor[4, 4, 4] key_factor[4, 4, 4] log_weights[4, 5] ");
  config.attention[1] = {.kind = AttentionKind::kPerformer,
                         .features = 5,
                         .rank = 4,
                         .placement = Placement::kLayer,
                         .centre = true};
  EXPECT_EQ(describe(), "draws[1, 5, 4] query_center[1, 4] key_center[2, 4] ");
  config.attention[1] = {.kind = AttentionKind::kHedgehog,
                         .features = 6,
                         .rank = 4,
                         .window = 3,
                         .near = NearKernel::kModel,
                         .gate = true};
  EXPECT_EQ(describe(),
            "factor[2, 3, 4] key_factor[2, 3, 4] gate_scale[4] gate_bias[4] gate_weight[4, 4] ");
  config.attention[1] = {.kind = AttentionKind::kConstant};
  EXPECT_EQ(describe(), "");
}

TEST(NameStyle, ThereAndBack) {
  for (const NameStyle style :
       {NameStyle::kPlain, NameStyle::kLanguageModel, NameStyle::kModelLanguageModel}) {
    EXPECT_EQ(canonical_name(stored_name("model.norm.weight", style), style), "model.norm.weight");
  }
  EXPECT_EQ(stored_name("model.norm.weight", NameStyle::kLanguageModel),
            "language_model.model.norm.weight");
  EXPECT_EQ(stored_name("model.norm.weight", NameStyle::kModelLanguageModel),
            "model.language_model.norm.weight");
  EXPECT_EQ(canonical_name("vision_tower.x", NameStyle::kLanguageModel), std::nullopt);
}

TEST_F(TensorNamesTest, FindsEveryFamilyInEveryStyle) {
  for (const Family family : {Family::kGemma1, Family::kGemma2, Family::kGemma3}) {
    for (const NameStyle style :
         {NameStyle::kPlain, NameStyle::kLanguageModel, NameStyle::kModelLanguageModel}) {
      const ModelConfig config = odd_config(family);
      const WeightFiles files = write(folder_of(config, style));
      const ModelTensors found = find_model_tensors(config, files);
      EXPECT_EQ(found.style, style);
      EXPECT_EQ(found.tensors.size(), expected_tensors(config).size());
      EXPECT_TRUE(found.skipped.empty());
    }
  }
  EXPECT_EQ(error_of(converted_config(), folder_of(converted_config())), "no error");
}

TEST_F(TensorNamesTest, SkipsWhatIsNoLanguageModel) {
  const ModelConfig config = odd_config(Family::kGemma3);
  Folder tensors = folder_of(config, NameStyle::kModelLanguageModel);
  tensors["model.vision_tower.x.weight"] = {DType::kF32, {3}};
  tensors["model.multi_modal_projector.y"] = {DType::kU8, {3}};
  tensors["vision_tower.x.weight"] = {DType::kF32, {3}};
  tensors["multi_modal_projector.y"] = {DType::kF32, {3}};
  tensors["model.language_model.layers.0.self_attn.rotary_emb.inv_freq"] = {DType::kF32, {2}};
  const WeightFiles files = write(tensors);
  EXPECT_EQ(find_model_tensors(config, files).skipped.size(), 5U);
}

TEST_F(TensorNamesTest, TiedHeadMayBeStored) {
  const ModelConfig config = odd_config(Family::kGemma1);
  Folder tensors = folder_of(config);
  tensors["lm_head.weight"] = {DType::kBF16, {12, 6}};
  EXPECT_EQ(error_of(config, tensors), "no error");
  tensors["lm_head.weight"].fill = 'y';
  expect_error(config, tensors, "model.safetensors: tensor 'lm_head.weight' is not the embedding");
  tensors["lm_head.weight"] = {DType::kBF16, {11, 6}};
  expect_error(config, tensors, "lm_head.weight is [11, 6], wanted [12, 6]");
  const ModelConfig three = odd_config(Family::kGemma3);
  Folder nested = folder_of(three, NameStyle::kLanguageModel);
  nested["language_model.lm_head.weight"] = {DType::kBF16, {12, 6}};
  EXPECT_EQ(error_of(three, nested), "no error");
}

TEST_F(TensorNamesTest, ListsWhatDoesNotFit) {
  const ModelConfig config = odd_config(Family::kGemma2);
  const Folder good = folder_of(config);
  Folder tensors = good;
  tensors.erase("model.norm.weight");
  expect_error(config, tensors, "1 missing (model.norm.weight)");
  tensors["model.nrm.weight"] = {DType::kBF16, {6}};
  expect_error(config, tensors,
               "1 missing (model.norm.weight); 1 not of this model (model.nrm.weight)");
  tensors = good;
  tensors["model.layers.0.mlp.up_proj.weight"].shape = {6, 10};
  expect_error(config, tensors,
               "1 of another shape (model.layers.0.mlp.up_proj.weight is [6, 10], wanted [10, 6])");
  tensors = good;
  tensors["model.norm.weight"].dtype = DType::kI64;
  expect_error(config, tensors, "model.norm.weight is I64, wanted F32, BF16 or F16");
  tensors = good;
  tensors["model.embed_tokens.weight"].shape = {13, 6};
  expect_error(config, tensors, "model.embed_tokens.weight is [13, 6], wanted [12, 6]");
  expect_error(config, {}, "24 missing (model.embed_tokens.weight, ");
  const std::string message = error_of(config, {});
  EXPECT_LT(message.size(), 400U);
  EXPECT_NE(message.find(", ...)"), std::string::npos);
}

TEST_F(TensorNamesTest, ConvertedTensorsAreNeitherMissingNorLeftOver) {
  const ModelConfig plain = odd_config(Family::kGemma2);
  const ModelConfig converted = converted_config();
  expect_error(plain, folder_of(converted), "7 not of this model (model.layers.1.self_attn.dark.");
  expect_error(converted, folder_of(plain), "7 missing (model.layers.1.self_attn.dark.draws");
  Folder tensors = folder_of(converted);
  tensors["model.layers.1.self_attn.dark.draws"].dtype = DType::kBF16;
  expect_error(converted, tensors, "draws is BF16, wanted F32");
  tensors = folder_of(converted);
  tensors["model.layers.1.self_attn.dark.factor"].shape = {2, 4, 4};
  expect_error(converted, tensors, "factor is [2, 4, 4], wanted [2, 3, 4]");
}

}  // namespace
}  // namespace darkformer::tensor_names_test
