// Lines out of a growing window over the stream.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/line_reader.h"

#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr std::size_t kLineReadBytes = std::size_t{1} << 18;

}  // namespace

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::string name, std::size_t max_bytes)
    : source_(std::move(source)), name_(std::move(name)), max_bytes_(max_bytes) {}

bool LineReader::next(std::string_view& line) {
  const std::size_t end = find_end();
  if (end == begin_ && end == buffer_.size()) {
    return false;
  }
  line = std::string_view(buffer_).substr(begin_, end - begin_);
  begin_ = scanned_ = std::min(end + 1, buffer_.size());
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  if (line_number_++ == 0 && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  return true;
}

// The offset of the next line end, or of the end of the file.
std::size_t LineReader::find_end() {
  for (;;) {
    const std::size_t found = buffer_.find('\n', scanned_);
    const std::size_t end = found == std::string::npos ? buffer_.size() : found;
    require(end - begin_ <= max_bytes_, name_, " line ", line_number_ + 1, ": longer than ",
            max_bytes_, " bytes; is it one JSON object a line?");
    if (found != std::string::npos) {
      return end;
    }
    scanned_ = end;
    if (!read_more()) {
      return buffer_.size();
    }
  }
}

bool LineReader::read_more() {
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + kLineReadBytes);
  const std::size_t got = source_->read(buffer_.data() + kept, kLineReadBytes);
  buffer_.resize(kept + got);
  return got > 0;
}

}  // namespace darkformer
