// Plain text in pieces that end at line ends; one document a file, or several with a separator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "darkformer/text/byte_source.h"
#include "darkformer/text/document_reader.h"

namespace darkformer {

// CRLF becomes LF, a byte order mark at the start is dropped; nothing else changes. A piece ends
// after a run of line ends and before another character. Gemma's vocabularies hold line ends as
// tokens of their own, which never join with what follows, so the pieces have the same tokens as
// the whole. Byte-level vocabularies may join a line end with a line of nothing but blanks behind
// it: there a cut, one in 256 KiB, can cost such a join.
class PlainTextReader final : public DocumentReader {
 public:
  PlainTextReader(std::unique_ptr<ByteSource> source,
                  std::string name,
                  const ReaderOptions& options);

  bool next(DocumentPiece& piece) override;
  std::uint64_t stored_bytes_used() const override { return source_->stored_bytes_used(); }

 private:
  std::string_view ahead() const { return std::string_view(buffer_).substr(begin_); }
  void read_more();
  void append_with_lf(std::string_view bytes);
  bool find_piece(std::size_t& size, bool& ends_document);
  std::size_t find_separator();
  std::size_t find_cut();
  void use(std::size_t size);
  void use_separator();
  std::string_view check_lines(std::string_view text);
  void count_line(std::string_view line);
  [[noreturn]] void fail_long_line(std::int64_t number) const;

  std::unique_ptr<ByteSource> source_;
  ReaderOptions options_;
  BrokenLines broken_;
  std::string incoming_;            // as read
  std::string buffer_;              // as given: line ends LF
  std::size_t begin_ = 0;           // of what has not been given yet
  std::size_t separator_from_ = 0;  // no separator starts before this offset of ahead()
  std::size_t cut_from_ = 0;        // no cut is possible up to this offset of ahead()
  bool pending_cr_ = false;         // a CR was the last byte read: is a LF next?
  bool source_ended_ = false;
  bool at_document_start_ = true;
  bool document_has_text_ = false;
  std::int64_t line_ends_ = 0;  // before begin_
  std::string cleaned_;         // a piece without its broken lines
};

}  // namespace darkformer
