// Splits a byte stream into lines, in bounded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "darkformer/text/byte_source.h"

namespace darkformer {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class LineReader {
 public:
  // `name` is the file in messages; a line of more than max_bytes is an Error.
  LineReader(std::unique_ptr<ByteSource> source, std::string name, std::size_t max_bytes);

  // The next line without its end (LF or CRLF) and without a byte order mark at the start of the
  // file; false at the end. The view holds until the next call. The last line may lack its end.
  bool next(std::string_view& line);

  std::int64_t line_number() const { return line_number_; }  // of the last line given, from 1
  const ByteSource& source() const { return *source_; }

 private:
  std::size_t find_end();
  bool read_more();

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::size_t max_bytes_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of what has not been given yet
  std::size_t scanned_ = 0;  // no line end in [begin_, scanned_)
  std::int64_t line_number_ = 0;
};

}  // namespace darkformer
