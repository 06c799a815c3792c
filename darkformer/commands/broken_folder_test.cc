// Every kind of broken model folder ends with exit code 1 and one line that names file and reason.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <functional>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/unprivileged.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/program_testing.h"
#include "darkformer/model/decoder.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::broken_folder_test {
namespace {

namespace fs = std::filesystem;

class BrokenFolder : public ::testing::Test {
 protected:
  BrokenFolder() : folder_(scratch_.path() / "model") {
    fs::copy(golden_folder("gemma1"), folder_);
    fs::permissions(scratch_.path(), fs::perms::all);  // for the test without root's rights
  }

  void expect_refused(const std::vector<std::string>& parts) const {
    const std::string out = (scratch_.path() / "out").string();
    expect_failure(run({"generate", folder_.string(), "--prompt", "a", "-n", "1"}), parts);
    expect_failure(run({"logits", folder_.string(), "--text", "a", "--out", out}), parts);
    EXPECT_FALSE(fs::exists(out));
  }

  std::string weights() const { return (folder_ / "model.safetensors").string(); }
  std::string config() const { return (folder_ / "config.json").string(); }

  void change_config(const std::function<void(Json&)>& change) const {
    Json json = read_json(config());
    change(json);
    write_bytes(config(), json.dump());
  }

  // The weights with a changed header; the tensors' bytes stay.
  void change_header(const std::function<void(Json&)>& change) const {
    const std::string bytes = read_bytes(weights());
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    Json header = parse_json(bytes.substr(8, size), "header");
    change(header);
    const std::string text = header.dump();
    size = text.size();
    write_bytes(weights(), std::string(reinterpret_cast<const char*>(&size), sizeof size) + text +
                               bytes.substr(8 + parse_size(bytes)));
  }

  static std::uint64_t parse_size(const std::string& bytes) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    return size;
  }

  ScratchFolder scratch_;
  fs::path folder_;
};

constexpr const char* kNorm = "model.norm.weight";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";

TEST_F(BrokenFolder, TheWholeOneWorks) {
  const Outcome outcome = run({"generate", folder_.string(), "--prompt", "a", "-n", "1"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.errors;
}

TEST_F(BrokenFolder, WeightsCutAnywhere) {
  const std::string bytes = read_bytes(weights());
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{8}, std::size_t{300},
                                 bytes.size() / 2, bytes.size() - 1}) {
    write_bytes(weights(), bytes.substr(0, size));
    expect_refused({weights()});
  }
}

TEST_F(BrokenFolder, AHeaderThatClaimsToBeHuge) {
  std::string bytes = read_bytes(weights());
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = '\x7F';
  }
  write_bytes(weights(), bytes);
  expect_refused({weights()});
}

// All bits set are a NaN in every type; what comes out names the tensor, not only the step.
TEST_F(BrokenFolder, AWeightThatIsNotANumber) {
  std::string bytes = read_bytes(weights());
  const std::size_t start = 8 + parse_size(bytes);
  const Json header = parse_json(bytes.substr(8, start - 8), "header");
  bytes.replace(start + header[kQuery]["data_offsets"][0].get<std::size_t>(), 4, 4, '\xFF');
  write_bytes(weights(), bytes);
  const std::string cause = std::string(kQuery) + " holds NaN or infinity";
  expect_refused({cause});
  const std::string text = (scratch_.path() / "text.txt").string();
  std::string words;
  for (int i = 0; i < 200; ++i) {
    words += "a b c d e f g ";
  }
  write_bytes(text, words);
  const std::string out = (scratch_.path() / "converted").string();
  expect_failure(
      run({"convert", "--no-fit", folder_.string(), "--attention", "dark", "--out", out}),
      {folder_.string(), cause});
  EXPECT_FALSE(fs::exists(out));
  for (const char* skip : {"--keep=2", "--skip-nonfinite"}) {
    const std::string run_folder = (scratch_.path() / skip).string();
    expect_failure(run({"finetune", folder_.string(), "--data", text, "--context", "16", "--steps",
                        "2", "--cache", scratch_.path().string(), "--out", run_folder, skip}),
                   {"step 1: ", cause});
  }
  expect_failure(run({"eval", folder_.string(), "--data", text, "--context", "16", "--cache",
                      scratch_.path().string()}),
                 {cause});
  expect_failure(run({"analyze", folder_.string(), "--data", text, "--context", "16", "--cache",
                      scratch_.path().string(), "--out", out}),
                 {cause});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(BrokenFolder, OffsetsThatOverlap) {
  change_header(
      [](Json& header) { header[kNorm]["data_offsets"] = header[kQuery]["data_offsets"]; });
  expect_refused({weights()});
}

TEST_F(BrokenFolder, OffsetsOutOfRange) {
  change_header([](Json& header) {
    const auto end = header[kNorm]["data_offsets"][1].get<std::uint64_t>();
    header[kNorm]["data_offsets"] = {end, std::uint64_t{1} << 60};
  });
  expect_refused({weights(), kNorm});
}

TEST_F(BrokenFolder, AShapeThatOverflows) {
  change_header([](Json& header) {
    header[kNorm]["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  });
  expect_refused({weights(), kNorm});
}

TEST_F(BrokenFolder, AnotherType) {
  change_header([](Json& header) { header[kNorm]["dtype"] = "I16"; });
  expect_refused({weights(), kNorm, "I16"});
  change_header([](Json& header) { header[kNorm]["dtype"] = "BF17"; });
  expect_refused({weights(), kNorm});
}

TEST_F(BrokenFolder, AMissingAndAnExtraTensor) {
  change_header([](Json& header) {
    header["model.surplus"] = header[kNorm];
    header.erase(kNorm);
  });
  expect_refused({weights(), kNorm, "model.surplus"});
}

TEST_F(BrokenFolder, AMissingShard) {
  save_model(folder_, *load_model(golden_folder("gemma1")),
             {.companions = golden_folder("gemma1"), .shard_bytes = 100'000});
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    shard = entry.path().extension() == ".safetensors" ? entry.path() : shard;
  }
  ASSERT_FALSE(shard.empty());
  fs::remove(shard);
  expect_refused({shard.filename().string()});
}

TEST_F(BrokenFolder, AConfigThatMakesNoSense) {
  const std::string good = read_bytes(config());
  const std::vector<std::pair<std::string, Json>> absurd = {
      {"num_hidden_layers", 1'000'000'000'000},
      {"hidden_size", -80},
      {"vocab_size", std::int64_t{1} << 62},
      {"head_dim", 15},
      {"num_attention_heads", 0},
      {"num_key_value_heads", 3},
      {"rms_norm_eps", "small"},
      {"model_type", "mixtral"},
  };
  for (const auto& [key, value] : absurd) {
    SCOPED_TRACE(key);
    change_config([&, k = key, v = value](Json& json) { json[k] = v; });
    expect_refused({config(), key});
    write_bytes(config(), good);
  }
  change_config([](Json& json) { json.erase("model_type"); });
  expect_refused({config(), "model_type"});
  write_bytes(config(), "");
  expect_refused({config()});
  write_bytes(config(), good.substr(0, good.size() / 2));
  expect_refused({config()});
  fs::remove(config());
  expect_refused({config()});
}

TEST_F(BrokenFolder, AVocabularyThatDoesNotFit) {
  change_config([](Json& json) { json["vocab_size"] = 500; });
  expect_refused({weights(), "model.embed_tokens.weight"});
}

TEST_F(BrokenFolder, ATokenizerWithMoreIdsThanTheModel) {
  TokenizerModel model = sample_model();
  for (int i = 0; i < 200; ++i) {
    model.pieces.push_back({"surplus" + std::to_string(i), -1000.0F - static_cast<float>(i)});
  }
  write_bytes(folder_ / "tokenizer.model", serialize_tokenizer_model(model));
  expect_refused({folder_.string(), "512"});
}

TEST_F(BrokenFolder, ATokenizerCutShort) {
  const fs::path file = folder_ / "tokenizer.model";
  const std::string bytes = read_bytes(file);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, bytes.size() / 2 + 1}) {
    write_bytes(file, bytes.substr(0, size));
    expect_refused({file.string()});
  }
}

// Nothing here reads it; what is converted would carry it on to those who do.
TEST_F(BrokenFolder, GenerationSettingsCutShort) {
  const fs::path file = folder_ / "generation_config.json";
  write_bytes(file, R"({"eos_token_id": [1, 106]})");
  EXPECT_EQ(run({"info", folder_.string()}).code, kExitDone);
  for (const char* text : {"", "{\"eos_token_id\": [1, 1", "[1]"}) {
    write_bytes(file, text);
    expect_refused({file.string()});
    expect_failure(run({"info", folder_.string()}), {file.string()});
    const fs::path out = scratch_.path() / "converted";
    expect_failure(run({"convert", "--no-fit", folder_.string(), "--out", out.string()}),
                   {file.string()});
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(BrokenFolder, NoRightToRead) {
  fs::permissions(folder_, fs::perms::none);
  {
    const Unprivileged user;
    expect_refused({folder_.string()});
  }
  fs::permissions(folder_, fs::perms::owner_all);
}

}  // namespace
}  // namespace darkformer::broken_folder_test
