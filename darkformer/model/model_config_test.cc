// Configurations: the released models, all spellings, round trips, absurd values.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::model_config_test {
namespace {

RopeSpec rope_of(double base, double factor = 1) {
  return {
      .kind = factor == 1 ? RopeKind::kDefault : RopeKind::kLinear, .base = base, .factor = factor};
}

constexpr LayerKind kFull = LayerKind::kFull;
constexpr LayerKind kSliding = LayerKind::kSliding;

ModelConfig parse(const OrderedJson& json) {
  return parse_model_config(json.dump(), "config.json");
}
ModelConfig parse_text(const std::string& text) {
  return parse_model_config(text, "config.json");
}

std::string error_of(const std::string& text) {
  try {
    parse_text(text);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("config.json")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  return "no error";
}

// A small Gemma 3 with every key set.
OrderedJson small_gemma3() {
  return OrderedJson::parse(R"({
    "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
    "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 80, "initializer_range": 0.02,
    "intermediate_size": 128, "max_position_embeddings": 64, "model_type": "gemma3_text",
    "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 1, "pad_token_id": 0,
    "query_pre_attn_scalar": 24, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
    "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 6, "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16", "transformers_version": "4.50.0", "use_cache": true,
    "vocab_size": 512})");
}

struct Released {
  const char* name;
  const char* model_type;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, mlp, vocab;
  std::int64_t parameters;
  std::int64_t kv_bytes;  // float32, one token
};

// The released sizes; counts from the models' cards.
constexpr Released kReleased[] = {
    {"gemma-2b", "gemma", 18, 2048, 8, 1, 256, 16384, 256000, 2506172416, 36864},
    {"gemma-7b", "gemma", 28, 3072, 16, 16, 256, 24576, 256000, 8537680896, 917504},
    {"gemma-2-2b", "gemma2", 26, 2304, 8, 4, 256, 9216, 256000, 2614341888, 212992},
    {"gemma-2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 256000, 9241705984, 688128},
    {"gemma-2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, 27227128320, 753664},
    {"gemma-3-270m", "gemma3_text", 18, 640, 4, 1, 256, 2048, 262144, 268098176, 36864},
    {"gemma-3-1b", "gemma3_text", 26, 1152, 4, 1, 256, 6912, 262144, 999885952, 53248},
    {"gemma-3-4b", "gemma3_text", 34, 2560, 8, 4, 256, 10240, 262208, 3880263168, 278528},
    {"gemma-3-12b", "gemma3_text", 48, 3840, 16, 8, 256, 15360, 262208, 11766034176, 786432},
    {"gemma-3-27b", "gemma3_text", 62, 5376, 32, 16, 128, 21504, 262208, 27009346304, 1015808},
};

OrderedJson released_json(const Released& model) {
  return {{"model_type", model.model_type},        {"num_hidden_layers", model.layers},
          {"hidden_size", model.hidden},           {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads}, {"head_dim", model.head_dim},
          {"intermediate_size", model.mlp},        {"vocab_size", model.vocab}};
}

TEST(ModelConfig, ParameterCountsOfTheReleasedModels) {
  for (const Released& model : kReleased) {
    const ModelConfig config = parse(released_json(model));
    EXPECT_EQ(parameter_count(config), model.parameters) << model.name;
    EXPECT_EQ(2 * config.layers * config.kv_width(0) * 4, model.kv_bytes) << model.name;
  }
}

TEST(ModelConfig, DefaultsOfTheClasses) {
  const ModelConfig one = parse_text(R"({"model_type": "gemma"})");
  EXPECT_EQ(parameter_count(one), 8537680896);
  EXPECT_EQ(one.max_positions, 8192);
  EXPECT_EQ(one.layer_kinds, std::vector<LayerKind>(28, kFull));
  EXPECT_DOUBLE_EQ(one.query_scale(), 1.0 / 16);
  EXPECT_EQ(one.attn_softcap, 0);
  const ModelConfig two = parse_text(R"({"model_type": "gemma2"})");
  EXPECT_EQ(parameter_count(two), 2614341888);
  EXPECT_EQ(two.attn_softcap, 50);
  EXPECT_EQ(two.final_softcap, 30);
  EXPECT_EQ(two.window(0), 4096);
  EXPECT_EQ(two.window(1), 0);
  EXPECT_EQ(two.rope(0).base, 10000);
  EXPECT_EQ(two.rope(1).base, 10000);
  const ModelConfig three = parse_text(R"({"model_type": "gemma3_text"})");
  EXPECT_EQ(three.vocab_size, 262208);
  EXPECT_EQ(three.max_positions, 131072);
  EXPECT_EQ(three.sliding_window, 4096);
  EXPECT_EQ(three.rope(0).base, 10000);
  EXPECT_EQ(three.rope(5).base, 1e6);
  EXPECT_FALSE(three.is_sliding(5));
  EXPECT_TRUE(three.is_sliding(6));
  EXPECT_EQ(three.attn_softcap, 0);
  EXPECT_EQ(three.eos_ids, std::vector<std::int64_t>{1});
  EXPECT_EQ(parse_text(R"({"model_type": "gemma3"})"), three);
}

TEST(ModelConfig, NullIsNotMissingForSoftcaps) {
  const ModelConfig config = parse_text(
      R"({"model_type": "gemma2", "attn_logit_softcapping": null, "final_logit_softcapping": 20})");
  EXPECT_EQ(config.attn_softcap, 0);
  EXPECT_EQ(config.final_softcap, 20);
}

TEST(ModelConfig, OldGemma1FilesSayGeluAndMeanTanh) {
  EXPECT_EQ(error_of(R"({"model_type":"gemma","hidden_act":"gelu","hidden_activation":null})"),
            "no error");
  EXPECT_EQ(error_of(R"({"model_type":"gemma","hidden_activation":"gelu"})"), "no error");
}

TEST(ModelConfig, LayerKindsInEverySpelling) {
  OrderedJson json = small_gemma3();
  const std::vector<LayerKind> usual = {kSliding, kSliding, kSliding, kSliding,
                                        kSliding, kFull,    kSliding};
  EXPECT_EQ(parse(json).layer_kinds, usual);
  json.erase("sliding_window_pattern");
  EXPECT_EQ(parse(json).layer_kinds, usual);
  json["_sliding_window_pattern"] = 3;
  EXPECT_EQ(parse(json).layer_kinds[2], kFull);
  EXPECT_EQ(parse(json).layer_kinds[3], kSliding);
  json["layer_types"] = {"full_attention",    "sliding_attention", "full_attention",
                         "sliding_attention", "full_attention",    "full_attention",
                         "full_attention"};
  EXPECT_EQ(parse(json).layer_kinds,
            (std::vector<LayerKind>{kFull, kSliding, kFull, kSliding, kFull, kFull, kFull}));
}

TEST(ModelConfig, RotationsInEverySpelling) {
  OrderedJson json = small_gemma3();
  EXPECT_EQ(parse(json).rope_full, (rope_of(1e6)));
  EXPECT_EQ(parse(json).rope_sliding, (rope_of(1e4)));
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(parse(json).rope_full, (rope_of(1e6, 8)));
  EXPECT_EQ(parse(json).rope_sliding, (rope_of(1e4)));
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  EXPECT_EQ(parse(json).rope_full.factor, 2);
  for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) {
    json.erase(key);
  }
  json["rope_parameters"] = OrderedJson::parse(
      R"({"full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 500000},
          "sliding_attention": {"rope_type": "default", "rope_theta": 9000}})");
  EXPECT_EQ(parse(json).rope_full, (rope_of(5e5, 4)));
  EXPECT_EQ(parse(json).rope_sliding, (rope_of(9e3)));
  const ModelConfig two = parse(OrderedJson::parse(
      R"({"model_type": "gemma2", "rope_parameters": {"rope_type": "default", "rope_theta": 5}})"));
  EXPECT_EQ(two.rope_full, (rope_of(5)));
  EXPECT_EQ(two.rope_sliding, (rope_of(5)));
}

TEST(ModelConfig, IdsAndTypesInsideAndOutside) {
  OrderedJson outer = {{"model_type", "gemma3"}, {"text_config", small_gemma3()}};
  EXPECT_EQ(parse(outer), [] {
    ModelConfig config = parse(small_gemma3());
    return config;
  }());
  EXPECT_EQ(parse(outer).eos_ids, (std::vector<std::int64_t>{1, 106}));
  outer["eos_token_id"] = 7;
  outer["dtype"] = "float16";
  outer["architectures"] = {"Gemma3ForConditionalGeneration"};
  EXPECT_EQ(parse(outer).eos_ids, std::vector<std::int64_t>{7});
  EXPECT_EQ(parse(outer).dtype, "float16");
  EXPECT_EQ(parse(outer).architectures[0], "Gemma3ForConditionalGeneration");
  EXPECT_EQ(parse_text(R"({"model_type": "gemma", "pad_token_id": null})").pad_id, -1);
}

TEST(ModelConfig, RefusesAbsurdNumbersByName) {
  const auto expect = [](const char* key, const OrderedJson& value) {
    OrderedJson json = small_gemma3();
    json[key] = value;
    const std::string message = error_of(json.dump());
    EXPECT_NE(message.find(std::string("\"") + key + "\""), std::string::npos)
        << key << " = " << value << ": " << message;
  };
  const OrderedJson huge = 4000000000000000000;
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "num_key_value_heads", "head_dim",
                          "max_position_embeddings", "sliding_window"}) {
    for (const OrderedJson& value :
         {OrderedJson(-1), OrderedJson(0), huge, OrderedJson(18446744073709551615U),
          OrderedJson(2.5), OrderedJson("7"), OrderedJson(true), OrderedJson::array()}) {
      expect(key, value);
    }
  }
  expect("num_hidden_layers", 1000001);
  expect("num_attention_heads", 5 * 4096);
  expect("num_key_value_heads", 3);  // 4 % 3
  expect("num_key_value_heads", 8);  // more than heads
  expect("head_dim", 15);
  expect("sliding_window_pattern", 0);
  expect("sliding_window_pattern", -6);
  for (const char* key : {"rms_norm_eps", "query_pre_attn_scalar", "rope_theta",
                          "rope_local_base_freq", "attn_logit_softcapping"}) {
    expect(key, -1);
    expect(key, 0);
    expect(key, "big");
  }
  expect("eos_token_id", 512);
  expect("eos_token_id", {1, -5});
  expect("eos_token_id", {"1"});
  expect("eos_token_id", "1");
  expect("bos_token_id", 512);
  expect("pad_token_id", 512);
  expect("layer_types", 3);
  expect("layer_types", {1, 2});
}

TEST(ModelConfig, RandomDamageIsAnErrorOrAConfig) {
  const std::string good = small_gemma3().dump();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char damage : {'9', '-', '"', '}', ',', 'e'}) {
      std::string bad = good;
      bad[i] = damage;
      error_of(bad);
    }
  }
}

TEST(ModelConfig, MadeInMemoryWrittenAndReadBack) {
  for (const Family family : {Family::kGemma1, Family::kGemma2, Family::kGemma3}) {
    ModelConfig config = default_model_config(family);
    config.heads = 4;
    config.kv_heads = 2;
    config.head_dim = 32;
    config.query_pre_attn_scalar = family == Family::kGemma1 ? 32 : 24;
    config.layers = 5;
    config.layer_kinds = default_layer_kinds(family, 5, 3);
    config.attention.resize(5);
    config.rms_norm_eps = 1e-5;
    config.eos_ids = {1, 5};
    config.pad_id = -1;
    config.dtype = "bfloat16";
    config.rope_full = rope_of(config.rope_full.base, 8);
    config.rope_sliding = family == Family::kGemma3 ? rope_of(9e3, 2) : config.rope_full;
    EXPECT_EQ(parse_text(model_config_text(config)), config);
    EXPECT_EQ(OrderedJson::parse(model_config_text(config))["model_type"],
              parts_of(family).model_type);
  }
}

TEST(ModelConfig, EveryFamilyIsWrittenAndReadBack) {
  for (const Family family : all_families()) {
    ModelConfig config = small_config(family);
    config.activation = Activation::kSilu;
    config.tied_head = !config.tied_head;
    const ModelConfig read = parse_text(model_config_text(config));
    EXPECT_EQ(read, config) << model_config_text(config);
  }
}

TEST(ModelConfig, EveryRotationIsWrittenAndReadBack) {
  for (const RopeSpec& rope : std::vector<RopeSpec>{
           {.kind = RopeKind::kLlama3, .factor = 8, .original = 100, .high_frequency = 5},
           {.kind = RopeKind::kYarn, .factor = 4, .original = 9, .beta_fast = 30, .amplitude = 1.5},
           {.kind = RopeKind::kDynamic, .factor = 2, .original = 256},
           {.kind = RopeKind::kProportional, .share = 0.5}}) {
    ModelConfig config = small_config(Family::kLlama);
    config.rope_full = config.rope_sliding = rope;
    EXPECT_EQ(parse_text(model_config_text(config)), config) << model_config_text(config);
  }
}

// The golden folders hold both spellings of the same models.
TEST(ModelConfig, BothDialectsSayTheSame) {
  int pairs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DARKFORMER_GOLDEN)) {
    const auto older = entry.path() / "config_v4.json";
    if (std::filesystem::exists(older)) {
      const ModelConfig four = read_model_config(older),
                        five = read_model_config(entry.path() / "config.json");
      EXPECT_EQ(four, five) << older;
      ++pairs;
    }
  }
  EXPECT_GE(pairs, 3);
}

TEST(ModelConfig, AConfigIsWrittenInTheDialectItCameIn) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DARKFORMER_GOLDEN)) {
    for (const char* name : {"config.json", "config_v4.json"}) {
      if (const auto file = entry.path() / name; std::filesystem::exists(file)) {
        const OrderedJson before = read_ordered_json(file);
        EXPECT_EQ(OrderedJson::parse(model_config_text(read_model_config(file))), before) << file;
        ++files;
      }
    }
  }
  EXPECT_GT(files, 15);
}

TEST(ModelConfig, UnknownKeysAndOrderAreKept) {
  OrderedJson json = small_gemma3();
  json["my_own"] = {{"z", 1}, {"a", nullptr}};
  json["rms_norm_eps"] = 1.5e-6;
  const std::string text = json.dump(2) + "\n";
  ModelConfig config = parse_text(text);
  EXPECT_EQ(model_config_text(config), text);
  config.dtype = "float32";
  json["torch_dtype"] = "float32";
  EXPECT_EQ(model_config_text(config), json.dump(2) + "\n");
}

TEST(ModelConfig, ChangesOfAReadConfigAreReadBack) {
  for (const bool nested : {false, true}) {
    OrderedJson json = small_gemma3();
    json["rope_parameters"] = {{"full_attention", {{"rope_theta", 7}}}};
    if (nested) {
      json = {{"model_type", "gemma3"}, {"dtype", "float16"}, {"text_config", json}};
    }
    ModelConfig config = parse(json);
    config.rope_full = rope_of(3e6, 4);
    config.dtype = "float32";
    config.eos_ids = {9};
    config.sliding_window = 5;
    config.vocab_size = 600;
    config.layer_kinds[0] = kFull;
    const ModelConfig read = parse_text(model_config_text(config));
    EXPECT_EQ(read, config);
  }
}

TEST(ModelConfig, ConvertedAndBack) {
  const std::string plain = small_gemma3().dump(2) + "\n";
  ModelConfig config = parse_text(plain);
  EXPECT_FALSE(config.is_converted());
  config.attention[5] = {.kind = AttentionKind::kDark,
                         .features = 32,
                         .rank = 16,
                         .window = 4,
                         .centre = true,
                         .gate = true};
  config.seed = 18446744073709551615U;
  config.draw_index = 3;
  const std::string text = model_config_text(config);
  const OrderedJson json = OrderedJson::parse(text);
  EXPECT_EQ(json["architectures"], OrderedJson({"DarkGemmaForCausalLM"}));
  EXPECT_EQ(json["darkformer"]["format_version"], 1);
  EXPECT_EQ(json["darkformer"]["base_architectures"], OrderedJson({"Gemma3ForCausalLM"}));
  EXPECT_EQ(json["darkformer"]["layers"].size(), 7U);
  EXPECT_EQ(json["darkformer"]["layers"][0], OrderedJson({{"attention", "exact"}}));
  EXPECT_EQ(json["darkformer"]["seed"], 18446744073709551615U);
  ModelConfig read = parse_text(text);
  EXPECT_TRUE(read.is_converted());
  EXPECT_EQ(read, config);
  EXPECT_EQ(model_config_text(read), text);
  read.attention[5] = {};
  EXPECT_EQ(model_config_text(read), plain);
}

TEST(ModelConfig, ConversionsThatCannotBeRead) {
  ModelConfig config = parse(small_gemma3());
  config.attention[5] = {.kind = AttentionKind::kPerformer, .features = 32, .rank = 16};
  const OrderedJson good = OrderedJson::parse(model_config_text(config));
  const auto expect = [&](const std::function<void(OrderedJson&)>& change,
                          const std::string& reason) {
    OrderedJson json = good;
    change(json["darkformer"]);
    const std::string message = error_of(json.dump());
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  };
  expect([](OrderedJson& s) { s["format_version"] = 2; }, "written by a newer darkformer");
  expect([](OrderedJson& s) { s["format_version"] = 0; }, "format_version is 0");
  expect([](OrderedJson& s) { s.erase("format_version"); }, "\"format_version\" is missing");
  expect([](OrderedJson& s) { s["layers"].erase(0); }, "\"layers\" has 6 entries");
  expect([](OrderedJson& s) { s["layers"] = 3; }, "\"layers\" must be a list");
  expect([](OrderedJson& s) { s["layers"][5]["features"] = 0; }, "darkformer.layers[5]");
  expect([](OrderedJson& s) { s.erase("base_architectures"); }, "base_architectures");
  expect([](OrderedJson& s) { s["seed"] = -1; }, "\"seed\"");
  expect([](OrderedJson& s) { s["draw_index"] = -1; }, "\"draw_index\"");
  expect([](OrderedJson& s) { s = OrderedJson(3); }, "must be an object");
}

TEST(ModelConfig, FilesThatAreNotThere) {
  const ScratchFolder folder;
  EXPECT_THROW(read_model_config(folder.path() / "config.json"), Error);
  EXPECT_THROW(read_model_config(folder.path()), Error);
  write_model_config(folder.path() / "config.json", parse(small_gemma3()));
  EXPECT_EQ(read_model_config(folder.path() / "config.json"), parse(small_gemma3()));
  write_file_atomically(folder.path() / "config.json",
                        std::string((std::size_t{16} << 20) + 1, ' '));
  EXPECT_THROW(read_model_config(folder.path() / "config.json"), Error);
}

}  // namespace
}  // namespace darkformer::model_config_test
