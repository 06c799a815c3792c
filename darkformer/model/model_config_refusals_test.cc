// Configs of other models and of parts that do not fit together are refused with their reason.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/model/model_config.h"

namespace darkformer::model_config_refusals_test {
namespace {

void expect(const std::string& text, const std::string& reason) {
  try {
    parse_model_config(text, "config.json");
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("config.json")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }
}

TEST(ModelConfigRefusals, OtherModels) {
  expect("", "not valid JSON");
  expect("{\"model_type\": \"gemma\"", "not valid JSON");
  expect("[]", "must be a JSON object");
  expect("{}", "\"model_type\" is missing");
  expect(R"({"model_type": null})", "\"model_type\" is missing");
  expect(R"({"model_type": 3})", "\"model_type\" must be a string");
  expect(R"({"model_type": "mixtral"})", "\"model_type\" is mixtral, which is not supported");
  expect(R"({"model_type": "gpt2"})",
         "wanted gemma, gemma2, gemma3, gemma3_text, gemma4, gemma4_text, llama, mistral, qwen2, "
         "qwen3");
  expect(R"({"model_type": "gemma4_text", "enable_moe_block": true})", "mixtures of experts");
  expect(R"({"model_type": "qwen3", "num_experts": 8})", "mixtures of experts");
  expect(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3n_text"}})",
         "text_config.model_type");
  expect(R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})",
         "use_bidirectional_attention");
  expect(R"({"model_type": "gemma3", "text_config": {"use_bidirectional_attention": true}})",
         "use_bidirectional_attention");
  expect(R"({"model_type": "gemma2", "hidden_activation": "relu"})", "hidden_activation");
  expect(R"({"model_type": "gemma2", "hidden_activation": "gelu"})", "hidden_activation");
  expect(R"({"model_type": "llama", "hidden_act": "gelu"})", "hidden_act");
  expect(R"({"model_type": "gemma4", "text_config": 3})", "\"text_config\" must be an object");
  expect(R"({"model_type": "gemma", "architectures": ["DarkGemmaForCausalLM"]})",
         "no \"darkformer\" section");
}

TEST(ModelConfigRefusals, Rotations) {
  expect(R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope", "factor": 2}})",
         "longrope");
  expect(R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 2}})",
         "\"low_freq_factor\" is missing");
  expect(R"({"model_type": "llama", "rope_parameters": {"partial_rotary_factor": 0.5}})",
         "partial_rotary_factor");
  expect(R"({"model_type": "qwen3", "rope_parameters": {"full_attention": {"rope_theta": 5}}})",
         "one rotation for all");
  expect(R"({"model_type": "gemma4_text", "rope_parameters": []})", "must be an object");
  expect(R"({"model_type": "llama", "rope_scaling": 3})", "must be an object");
  expect(R"({"model_type": "gemma", "rope_scaling": {"rope_type": "linear"}})", "\"factor\"");
}

TEST(ModelConfigRefusals, SizesAndLayers) {
  expect(R"({"model_type": "llama", "num_attention_heads": 6, "num_key_value_heads": 4})",
         "no multiple of");
  expect(R"({"model_type": "llama", "hidden_size": 36, "num_attention_heads": 4})",
         "\"head_dim\" is 9");
  expect(R"({"model_type": "gemma3_text", "layer_types": []})", "has 0 entries");
  expect(R"({"model_type": "gemma4_text", "layer_types": []})", "has 0 entries");
  expect(R"({"model_type": "mistral", "layer_types": ["full_attention"]})", "layer_types");
  expect(R"({"model_type": "qwen2", "layer_types": ["sliding_attention"], "num_hidden_layers": 1})",
         "sliding_window");
  expect(R"({"model_type": "gemma4_text", "num_kv_shared_layers": 30})", "num_kv_shared_layers");
  expect(R"({"model_type": "gemma4_text", "num_kv_shared_layers": 26})",
         "none of its kind to share");
  expect(R"({"model_type": "gemma4_text", "global_head_dim": 7})", "global_head_dim");
  expect(R"({"model_type": "gemma4_text", "global_head_dim": 0})", "\"global_head_dim\" is 0");
  expect(R"({"model_type": "gemma4_text", "attention_k_eq_v": true,
             "num_global_key_value_heads": 0})",
         "\"num_global_key_value_heads\" is 0");
  for (const char* slides : {"true", "false"}) {
    expect(concat(R"({"model_type": "qwen3", "max_window_layers": -1, "use_sliding_window": )",
                  slides, "}"),
           "\"max_window_layers\" is -1");
  }
  expect(R"({"model_type": "gemma4_text", "attention_k_eq_v": true,
             "num_global_key_value_heads": 3})",
         "num_global_key_value_heads");
  expect(R"({"model_type": "gemma4_text", "vocab_size_per_layer_input": 0})",
         "vocab_size_per_layer_input");
  expect(R"({"model_type": "gemma2", "layer_types": ["sliding_attention"]})",
         "\"layer_types\" has 1 entry for 26 layers");
  expect(R"({"model_type": "gemma2", "layer_types": ["mamba"]})", "mamba");
}

}  // namespace
}  // namespace darkformer::model_config_refusals_test
