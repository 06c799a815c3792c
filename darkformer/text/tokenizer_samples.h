// What the tokenizer's tests share: a text to learn from and random Unicode to be tried on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "darkformer/text/tokenizer_training.h"

namespace darkformer {

inline const std::string& sample_text() {
  static const std::string text =
      "The attention of a transformer looks at every pair of tokens, so that its cost grows with "
      "the square of the length. Random features replace the exponential of a product by a product "
      "of features; the cost then grows with the length alone. In 1873 the attention of the reader "
      "was on other features: \"What's the cost?\", asked the token.\n\n"
      "Features of the covariance are learned from the data, the data are learned from the text, "
      "and the text is learned by heart. Größe, naïve façade, Größe und Länge; größer, länger.\n"
      "  for (i = 0; i < 10; ++i) {\n    features[i] = features[i - 1] + features[i - 2];\n  }\n"
      "東京の人は東京に住む。東京は大きい。 привет, мир; привет, привет!\n";
  return text;
}

inline TokenizerModel sample_model(std::int32_t pieces = 420) {
  TokenizerTrainer trainer;
  trainer.add(sample_text());
  return trainer.train({.pieces = pieces, .character_coverage = 0.995});
}

inline void append_character(char32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 63));
    text += static_cast<char>(0x80 | (code & 63));
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 63));
    text += static_cast<char>(0x80 | (code >> 6 & 63));
    text += static_cast<char>(0x80 | (code & 63));
  }
}

// Scraps of the sample text, all of Unicode, runs of white space and markers. U+2581 stands for a
// space inside a tokenizer and cannot survive a round trip: `with_blocks` says whether it may come.
inline std::string random_text(std::mt19937& random, bool with_blocks = false) {
  const std::vector<std::string> fixed = {" ",
                                          "  ",
                                          "         ",
                                          "\n",
                                          "\n\n\n\n\n\n",
                                          "\t",
                                          "\r\n",
                                          "7",
                                          "<start_of_turn>",
                                          "<bos>",
                                          "<0x41>",
                                          std::string(1, '\0'),
                                          "\xEF\xBF\xBD",
                                          "<end_of_tur"};
  std::string text;
  const auto below = [&](std::size_t count) { return random() % count; };
  for (std::size_t parts = below(30); parts > 0; --parts) {
    const std::size_t kind = below(4);
    if (kind == 0) {
      text += fixed[below(fixed.size())];
    } else if (kind == 1) {  // ASCII by bytes, so that it may start and end anywhere
      const std::string& sample = sample_text();
      text += sample.substr(below(200), below(40));
    } else {
      char32_t code = kind == 2 ? below(0x3000) : below(0x110000);
      code = code >= 0xD800 && code < 0xE000 ? U'\u00E9' : code;
      append_character(code == 0x2581 && !with_blocks ? U'x' : code, text);
    }
  }
  return text;
}

}  // namespace darkformer
