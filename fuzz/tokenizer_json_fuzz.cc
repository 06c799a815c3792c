// tokenizer.json: Hugging Face's form. What is accepted encodes and decodes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer.h"
#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_success([&] {
    const Tokenizer tokenizer =
        Tokenizer::from_json(fuzz::text_of(data, size), "tokenizer.json", 1);
    for (const char* text : {"", "a b", "\xE2\x96\x81 \xF0\x9F\x98\x80", "<start_of_turn>user\n",
                             "it's  12\n\n e\xCC\x81\xCC\xA3 <s>x<|a|> \xE2\x82"}) {
      tokenizer.decode(tokenizer.encode(text));
      tokenizer.decode(tokenizer.encode_plain(text));
      tokenizer.encode_more(text);
    }
    const ChatTurn turn{"user", "a <s> b"};
    tokenizer.encode_chat({&turn, 1});
  });
  return 0;
}
