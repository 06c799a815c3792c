// Texts and the ids that Gemma's own vocabularies give them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "darkformer/base/json.h"
#include "darkformer/text/tokenizer.h"

namespace darkformer::tokenizer_golden_test {
namespace {

// The golden file holds the pieces that can occur in its texts; scores follow Gemma's ids, so that
// merging is as with all pieces.
class GoldenTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, GivesGemmasIds) {
  const std::string file = std::string(DARKFORMER_GOLDEN "/tokenizer/") + GetParam();
  const Json golden = read_json(file);
  TokenizerModel model;
  std::vector<std::int32_t> model_ids;
  for (const Json& piece : golden.at("pieces")) {
    model_ids.push_back(piece[0].get<std::int32_t>());
    model.pieces.push_back({piece[1].get<std::string>(), -piece[0].get<float>(),
                            static_cast<PieceType>(piece[2].get<int>())});
  }
  const Tokenizer tokenizer(std::move(model), file, 0);
  ASSERT_GE(golden.at("cases").size(), 20U);
  for (const Json& test : golden.at("cases")) {
    const auto text = test.at("text").get<std::string>();
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    if (text.find("\xE2\x96\x81") == std::string::npos) {  // U+2581 comes back as a space
      EXPECT_EQ(tokenizer.decode(ids), text);
    }
    for (std::int32_t& id : ids) {
      id = model_ids[id];
    }
    EXPECT_EQ(ids, test.at("ids").get<std::vector<std::int32_t>>()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Gemma, GoldenTokenizer, testing::Values("gemma2.json", "gemma3.json"));

}  // namespace
}  // namespace darkformer::tokenizer_golden_test
