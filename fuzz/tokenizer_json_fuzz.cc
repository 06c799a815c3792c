// tokenizer.json: Hugging Face's form. What is accepted encodes and decodes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_json.h"
#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_success([&] {
    const Tokenizer tokenizer(parse_tokenizer_json(fuzz::text_of(data, size), "tokenizer.json"),
                              "tokenizer.json", 1);
    for (const char* text : {"", "a b", "\xE2\x96\x81 \xF0\x9F\x98\x80", "<start_of_turn>user\n"}) {
      tokenizer.decode(tokenizer.encode(text));
    }
  });
  return 0;
}
