// A tiny model and a tiny corpus for tests of training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/small_decoder.h"
#include "darkformer/text/test_shards.h"
#include "darkformer/training/trainer.h"

namespace darkformer {

// Two layers, one of them dark, over the byte vocabulary.
inline std::shared_ptr<Decoder> tiny_model(Family family = Family::kGemma1) {
  ModelConfig config = small_config(family, 2);
  config.vocab_size = 259;
  config.attention[1] = small_dark_spec();
  config.seed = 3;
  return std::make_shared<Decoder>(config, initial_weights(7, 0.1));
}

// Windows of 12 tokens, a part of them held out.
inline CorpusSplit tiny_corpus(const std::filesystem::path& folder) {
  const auto shard = make_shard(folder / "tiny.tokens", make_documents(60, 40));
  return split_corpus(std::make_shared<PackedTokens>(Shards{shard}),
                      {.context = 12, .held_out = 0.1});
}

inline std::shared_ptr<BatchStream> tiny_batches(const CorpusSplit& split) {
  return std::make_shared<BatchStream>(split, BatchOptions{.batch = 4, .seed = 5});
}

inline TrainerOptions tiny_training() {
  TrainerOptions options;
  options.schedule = {.peak = 3e-3, .warmup = 3, .steps = 12};
  options.factor_rate_scale = 2;
  options.redraw_every = 4;
  return options;
}

}  // namespace darkformer
