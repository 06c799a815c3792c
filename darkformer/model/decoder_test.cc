// The model as a whole: decoding equals the full pass, forks, batches, fingerprints.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>

#include "darkformer/model/small_decoder.h"
#include "darkformer/ops/op_testing.h"

namespace darkformer::decoder_test {
namespace {

// Sums of about a hundred terms, a few layers deep.
constexpr std::int64_t kTerms = 100;

at::Tensor random_ids(std::int64_t B, std::int64_t T) {
  return at::randint(0, 61, {B, T}, at::kLong);
}

// Every family exact, and every family with a converted layer in the middle.
template <class Body>
void on_every_model(const Body& body) {
  for (const Family family : all_families()) {
    for (const bool converted : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << parts_of(family).model_type << (converted ? ", dark" : ""));
      const ModelConfig config = small_config(family);
      body(*small_decoder(converted ? with_attention(config, 1, small_dark_spec()) : config));
    }
  }
}

at::Tensor full_logits(Decoder& model, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  return model.logits(model.forward(ids));
}

TEST(Decoder, ReadingInPiecesEqualsTheFullPass) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(2, 23);  // well past the sliding window
    const at::Tensor want = full_logits(model, ids);
    for (const std::vector<std::int64_t>& pieces : std::vector<std::vector<std::int64_t>>{
             {23}, std::vector<std::int64_t>(23, 1), {4, 1, 1, 7, 1, 9}, {1, 22}}) {
      DecoderState state;
      at::Tensor hidden;
      std::int64_t begin = 0;
      std::vector<at::Tensor> parts;
      for (const std::int64_t count : pieces) {
        hidden = model.extend(ids.narrow(1, begin, count), state);
        parts.push_back(model.logits(hidden).detach());
        begin += count;
      }
      EXPECT_EQ(state.position, 23);
      EXPECT_TRUE(state.hidden.equal(hidden.narrow(1, hidden.size(1) - 1, 1)));
      ops::expect_close("logits", at::cat(parts, 1), want, kTerms);
    }
  });
}

TEST(Decoder, ReadTokensEqualsTheFullPassAcrossBlocks) {
  ModelConfig config = small_config(Family::kGemma3);
  const auto model = small_decoder(config);
  const at::Tensor ids = random_ids(1, kReadBlock + 3);
  DecoderState state;
  std::vector<at::Tensor> parts;
  read_tokens(*model, ids, state,
              [&](const at::Tensor& hidden) { parts.push_back(model->logits(hidden).detach()); });
  EXPECT_EQ(parts.size(), 2U);
  ops::expect_close("logits", at::cat(parts, 1), full_logits(*model, ids), 4 * kTerms);
}

TEST(Decoder, AForkGoesOnWithTheSameBits) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(1, 12), other = random_ids(1, 4);
    DecoderState straight;
    model.extend(ids.narrow(1, 0, 8), straight);
    DecoderState fork = straight.clone();
    model.extend(other, fork);  // must not touch the other one
    DecoderState again = straight.clone();
    const at::Tensor want = model.extend(ids.narrow(1, 8, 4), straight);
    EXPECT_TRUE(model.extend(ids.narrow(1, 8, 4), again).equal(want));
    EXPECT_FALSE(fork.hidden.equal(straight.hidden));
  });
}

TEST(Decoder, SequencesOfABatchDoNotMix) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(3, 11);
    const at::Tensor together = full_logits(model, ids);
    for (std::int64_t b = 0; b < 3; ++b) {
      ops::expect_close("row", full_logits(model, ids.narrow(0, b, 1)), together.narrow(0, b, 1),
                        kTerms);
    }
  });
}

TEST(Decoder, ChosenSequencesGoOnAsIfAlone) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(5, 16);
    DecoderState batch, alone;
    at::Tensor want;
    for (std::int64_t t = 0; t < 16; ++t) {
      want = model.extend(ids.narrow(0, 3, 1).narrow(1, t, 1), alone);
      if (t == 9) {
        EXPECT_TRUE(batch.select({3}).hidden.equal(batch.hidden.narrow(0, 3, 1)));
        batch = batch.select({3, 1});
      }
      const at::Tensor rows = t < 9 ? ids : at::cat({ids.narrow(0, 3, 1), ids.narrow(0, 1, 1)});
      const at::Tensor got = model.extend(rows.narrow(1, t, 1), batch);
      EXPECT_TRUE(got.narrow(0, t < 9 ? 3 : 0, 1).equal(want)) << t;
    }
    EXPECT_EQ(batch.position, 16);
  });
}

TEST(Decoder, TheFutureDoesNotReachThePast) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(1, 14);
    at::Tensor changed = ids.clone();
    changed.narrow(1, 9, 5).copy_(random_ids(1, 5));
    ops::expect_close("past", full_logits(model, changed).narrow(1, 0, 9),
                      full_logits(model, ids).narrow(1, 0, 9), kTerms);
  });
}

TEST(Decoder, StateBytesAreAsForetold) {
  ModelConfig config = small_config(Family::kGemma3);
  for (AttentionSpec& spec : config.attention) {
    spec = small_dark_spec();
  }
  const auto model = small_decoder(config);
  DecoderState state;
  read_tokens(*model, random_ids(1, 40), state);
  EXPECT_EQ(state.bytes(), model->state_bytes(40));
  EXPECT_EQ(model->state_bytes(40), model->state_bytes(1 << 20));
}

TEST(Decoder, EveryParameterGetsAGradient) {
  on_every_model([](Decoder& model) {
    const at::Tensor ids = random_ids(2, 9);
    const at::Tensor hidden = model.forward(ids.narrow(1, 0, 8));
    model.loss(hidden, ids.narrow(1, 1, 8)).mean().backward();
    for (const auto& entry : model.named_parameters()) {
      ASSERT_TRUE(entry.value().grad().defined()) << entry.key();
      EXPECT_GT(entry.value().grad().abs().max().item<float>(), 0.0F) << entry.key();
    }
  });
}

TEST(Decoder, TheFingerprintSeesEveryTensor) {
  ModelConfig config = small_config(Family::kGemma3);
  config.attention[1] = small_dark_spec();
  const auto model = small_decoder(config);
  const std::uint64_t before = fingerprint(*model);
  EXPECT_EQ(before, fingerprint(*small_decoder(config)));
  const at::NoGradGuard no_gradients;
  auto tensors = model->named_parameters().values();
  const auto buffers = model->named_buffers().values();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  for (at::Tensor& tensor : tensors) {
    const at::Tensor kept = tensor.clone();
    tensor.view(-1)[0].add_(1);
    EXPECT_NE(fingerprint(*model), before);
    tensor.copy_(kept);
    EXPECT_EQ(fingerprint(*model), before);
  }
  const Decoder rounded(config, initial_weights(7, 0.2), EmbedScale::kBfloat16);
  EXPECT_NE(fingerprint(rounded), before);
}

TEST(Decoder, RefusesWrongIds) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  DecoderState state;
  ops::expect_error([&] { model->forward(random_ids(1, 3).flatten()); },
                    "decoder: ids are int64 [3]");
  ops::expect_error([&] { model->extend(random_ids(1, 0), state); },
                    "decoder: ids are int64 [1, 0]");
  ops::expect_error([&] { model->extend(random_ids(1, 3) + 61, state); }, "embedding: id ");
}

}  // namespace
}  // namespace darkformer::decoder_test
