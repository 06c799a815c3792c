// Texts as users give them. The first byte chooses the form: plain, JSON lines, either by gzip or zstd, or
// a name that says nothing.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "darkformer/text/document_reader.h"
#include "darkformer/text/utf8.h"
#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array kNames = {"a.txt",      "a.jsonl",   "a.json.gz", "a.txt.gz",
                                 "a.json.zst", "a.txt.zst", "a"};
  if (size == 0) {
    return 0;
  }
  const auto path =
      fuzz::input_file(kNames[data[0] % kNames.size()], fuzz::text_of(data + 1, size - 1));
  fuzz::expect_error_or_success([&] {
    // Small limits, so that short inputs reach them.
    ReaderOptions options;
    options.separator = "--", options.piece_bytes = 64, options.max_line_bytes = 1 << 16;
    const auto reader = open_documents(path, options);
    DocumentPiece piece;
    for (std::size_t bytes = 0; bytes < (1 << 22) && reader->next(piece);) {
      fuzz::require_true(is_utf8(piece.text), "a piece that is not UTF-8");
      bytes += piece.text.size() + 1;
    }
  });
  return 0;
}
