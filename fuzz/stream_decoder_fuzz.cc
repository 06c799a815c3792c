// Any ids, streamed: whole characters only, and together the same text as decoded at once.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"
#include "darkformer/text/utf8.h"
#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer(sample_model(), "sample", 1);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i + 1 < size; i += 2) {
    ids.push_back((data[i] * 256 + data[i + 1]) % tokenizer.size());
  }
  StreamDecoder stream(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string part = stream.push(id);
    fuzz::require_true(is_utf8(part), "half a character was given out");
    text += part;
  }
  text += stream.finish();
  fuzz::require_true(text == tokenizer.decode(ids), "the stream differs from the whole");
  // Text of any bytes goes through the encoder too.
  fuzz::expect_error_or_success([&] { tokenizer.encode(fuzz::text_of(data, size)); });
  return 0;
}
