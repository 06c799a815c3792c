// States on disk: the same bits afterwards; foreign and damaged files are refused.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/state_file.h"

#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::state_file_test {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<Decoder> mixed_decoder(Family family, std::uint64_t seed = 7) {
  return small_decoder(with_attention(small_config(family), 1, small_dark_spec()), seed);
}

at::Tensor random_ids(std::int64_t T) {
  return at::randint(0, 61, {1, T}, at::kLong);
}

std::string error_of(const fs::path& file, const Decoder& model) {
  try {
    load_state(file, model);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(StateFile, GoesOnWithTheSameBits) {
  const ScratchFolder scratch;
  for (const Family family : all_families()) {
    const auto model = mixed_decoder(family);
    DecoderState state;
    read_tokens(*model, random_ids(13), state);
    save_state(scratch.path() / "state", state, *model);
    DecoderState loaded = load_state(scratch.path() / "state", *model);
    EXPECT_EQ(loaded.position, 13);
    EXPECT_TRUE(loaded.hidden.equal(state.hidden));
    EXPECT_EQ(loaded.bytes(), state.bytes());
    for (int step = 0; step < 7; ++step) {
      const at::Tensor ids = random_ids(1 + step % 2);
      EXPECT_TRUE(model->extend(ids, loaded).equal(model->extend(ids, state)));
    }
  }
}

// Every kind of attention, with the options that add tensors to its state.
std::vector<AttentionSpec> all_specs() {
  std::vector<AttentionSpec> specs;
  for (int i = 0; i <= static_cast<int>(AttentionKind::kRandom); ++i) {
    const auto kind = static_cast<AttentionKind>(i);
    AttentionSpec spec{.kind = kind, .window = kind == AttentionKind::kWindow ? 3 : 0};
    if (has_features(kind)) {
      spec.features = 16;
      spec.rank = 8;
      spec.near = usual_near_kernel(kind);
      specs.push_back(spec);
      spec.window = 3;
      spec.sinks = 1;
      spec.gate = true;
    }
    specs.push_back(spec);
  }
  return specs;
}

TEST(StateFile, EveryKindGoesOnWithTheSameBits) {
  const ScratchFolder scratch;
  for (const AttentionSpec& spec : all_specs()) {
    ModelConfig config = small_config(Family::kGemma1);
    std::fill(config.attention.begin(), config.attention.end(), spec);
    const auto model = small_decoder(config);
    DecoderState state;
    read_tokens(*model, random_ids(11), state);
    save_state(scratch.path() / "state", state, *model);
    DecoderState loaded = load_state(scratch.path() / "state", *model);
    for (int step = 0; step < 5; ++step) {
      const at::Tensor ids = random_ids(1 + step % 2);
      EXPECT_TRUE(model->extend(ids, loaded).equal(model->extend(ids, state)))
          << attention_kind_name(spec.kind) << ", window " << spec.window << ", step " << step;
    }
  }
}

TEST(StateFile, RefusesAForeignState) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "state";
  const auto model = mixed_decoder(Family::kGemma2);
  DecoderState state;
  read_tokens(*model, random_ids(5), state);
  save_state(file, state, *model);
  EXPECT_NE(error_of(file, *mixed_decoder(Family::kGemma2, 8)).find("another model"),
            std::string::npos);
  EXPECT_NE(error_of(file, *mixed_decoder(Family::kGemma3)).find("another model"),
            std::string::npos);
  std::ofstream(file) << "nonsense";
  EXPECT_NE(error_of(file, *model), "");
  EXPECT_NE(error_of(scratch.path() / "nowhere", *model), "");
}

// Any single changed byte is noticed: in the header, in the sums, anywhere.
TEST(StateFile, RefusesADamagedState) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "state";
  const auto model = mixed_decoder(Family::kGemma1);
  DecoderState state;
  read_tokens(*model, random_ids(5), state);
  save_state(file, state, *model);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 61) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_NE(error_of(file, *model).find(file.string()), std::string::npos) << "byte " << at;
  }
  std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_NE(error_of(file, *model), "");
}

TEST(StateFile, RefusesToSaveNothing) {
  const ScratchFolder scratch;
  const auto model = mixed_decoder(Family::kGemma1);
  EXPECT_THROW(save_state(scratch.path() / "state", DecoderState{}, *model), Error);
  EXPECT_FALSE(fs::exists(scratch.path() / "state"));
}

}  // namespace
}  // namespace darkformer::state_file_test
