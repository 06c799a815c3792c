// Decoding with states of constant size needs the same memory after ten thousand tokens and a
// thousand forks as before.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "darkformer/base/system_info.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::decode_memory_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kAllowed = std::int64_t{1} << 30;  // sanitizers keep freed memory on purpose
#else
constexpr std::int64_t kAllowed = std::int64_t{4} << 20;  // what an allocator may round up to
#endif

std::shared_ptr<Decoder> linear_decoder() {
  ModelConfig config = small_config(Family::kGemma1, 2);
  config.max_positions = 20000;
  config.attention[0] = small_dark_spec();
  config.attention[1] = {.kind = AttentionKind::kPerformer, .features = 16, .rank = 8};
  return small_decoder(config);
}

at::Tensor token(std::int64_t i) {
  return at::full({1, 1}, i % 61, at::kLong);
}

TEST(DecodeMemory, StaysFlatOverTenThousandSteps) {
  const auto model = linear_decoder();
  DecoderState state;
  for (std::int64_t i = 0; i < 500; ++i) {
    model->extend(token(i), state);
  }
  const std::int64_t bytes = state.bytes(), before = memory_info().resident;
  for (std::int64_t i = 0; i < 10000; ++i) {
    model->extend(token(i), state);
  }
  EXPECT_EQ(state.bytes(), bytes);
  EXPECT_LT(memory_info().resident - before, kAllowed);
}

TEST(DecodeMemory, StaysFlatOverAThousandForks) {
  const auto model = linear_decoder();
  DecoderState state;
  model->extend(token(1), state);
  const auto fork_and_step = [&](std::int64_t i) {
    DecoderState fork = state.clone();
    model->extend(token(i), fork);
  };
  fork_and_step(0);
  const std::int64_t before = memory_info().resident;
  for (std::int64_t i = 0; i < 1000; ++i) {
    fork_and_step(i);
  }
  EXPECT_LT(memory_info().resident - before, kAllowed);
}

}  // namespace
}  // namespace darkformer::decode_memory_test
