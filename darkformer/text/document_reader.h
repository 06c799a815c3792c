// Documents out of text files, plain or JSON lines, streamed and unpacked on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "darkformer/text/broken_lines.h"

namespace darkformer {

enum class TextFormat { kPlainText, kJsonLines };

struct ReaderOptions {
  // Plain text: a new document starts after each occurrence of these bytes (which belong to no
  // document); empty: the file is one document.
  std::string separator;
  // JSON lines: the key whose string is the document.
  std::string text_field = "text";
  // Plain text: documents come in pieces of about this size, cut after a run of line ends.
  std::size_t piece_bytes = std::size_t{256} << 10;
  // A longer line is an Error: what we hold in memory stays bounded.
  std::size_t max_line_bytes = std::size_t{64} << 20;
  BrokenLimit broken;
};

// A part of a document: valid UTF-8, line ends LF (plain text), no byte order mark. The text may be
// empty.
struct DocumentPiece {
  std::string_view text;
  bool begins_document = false;
  bool ends_document = false;
};

// Reads one file forward. Lines with invalid UTF-8, no valid JSON object or no string under the
// text field are left out and counted; too many of them are an Error that names the file, the first
// such line and why. Not thread-safe.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  // False at the end of the file. The text holds until the next call.
  virtual bool next(DocumentPiece& piece) = 0;

  // How much of the file as stored has been used: for progress against the file's size.
  virtual std::uint64_t stored_bytes_used() const = 0;

  const ReadReport& report() const { return report_; }

 protected:
  ReadReport report_;
};

// By the name without .gz and .zst: .txt and .text are plain text; .jsonl, .json and .ndjson are
// JSON lines. Any other name: JSON lines if the first character of the content is '{', else plain
// text.
TextFormat text_format(const std::filesystem::path& path);
// Has the name an ending that says nothing of this, as .csv?
bool has_unknown_ending(const std::filesystem::path& path);

std::unique_ptr<DocumentReader> open_documents(const std::filesystem::path& path,
                                               const ReaderOptions& options = {});

}  // namespace darkformer
