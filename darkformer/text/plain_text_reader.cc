// Plain text: a window over the stream, cut at separators and line ends, checked line by line.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/plain_text_reader.h"

#include <algorithm>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/text/line_reader.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::size_t kPlainReadBytes = std::size_t{1} << 16;
constexpr std::size_t kNotFound = std::string_view::npos;

// Calls visit(line with its end) for each line of text.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t found = text.find('\n');
    const std::size_t size = found == kNotFound ? text.size() : found + 1;
    visit(text.substr(0, size));
    text.remove_prefix(size);
  }
}

}  // namespace

PlainTextReader::PlainTextReader(std::unique_ptr<ByteSource> source,
                                 std::string name,
                                 const ReaderOptions& options)
    : source_(std::move(source)), options_(options), broken_(report_, options.broken) {
  report_.file = std::move(name);
  while (!source_ended_ && buffer_.size() < kByteOrderMark.size()) {
    read_more();
  }
  if (buffer_.starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
  }
}

bool PlainTextReader::next(DocumentPiece& piece) {
  std::size_t size = 0;
  bool ends_document = false;
  while (find_piece(size, ends_document)) {
    const std::string_view text = ahead().substr(0, size);
    const bool begins_document = std::exchange(at_document_start_, ends_document);
    if (begins_document && ends_document && text.empty()) {
      use_separator();  // nothing between two separators: no document
      continue;
    }
    piece = {check_lines(text), begins_document, ends_document};
    document_has_text_ = (!begins_document && document_has_text_) || !piece.text.empty();
    report_.documents += ends_document && document_has_text_ ? 1 : 0;
    use(size);
    if (ends_document && !ahead().empty()) {
      use_separator();
    }
    return true;
  }
  broken_.finish();
  return false;
}

// The size of the next piece, and whether a separator or the end of the file follows it; false at
// the end of the file.
bool PlainTextReader::find_piece(std::size_t& size, bool& ends_document) {
  for (;;) {
    size = find_separator();
    ends_document = size != kNotFound || source_ended_;
    if (size != kNotFound) {
      return true;
    }
    if (source_ended_) {
      size = ahead().size();
      return size > 0;
    }
    size = find_cut();
    if (size != kNotFound) {
      return true;
    }
    read_more();
  }
}

std::size_t PlainTextReader::find_separator() {
  const std::string_view separator = options_.separator;
  if (separator.empty()) {
    return kNotFound;
  }
  const std::size_t found = ahead().find(separator, separator_from_);
  // The next one may have started already, with fewer bytes than it needs.
  const std::size_t unfinished = std::min(ahead().size(), separator.size() - 1);
  separator_from_ = std::max(separator_from_, ahead().size() - unfinished);
  return found;
}

// Where a piece may end, as late as possible, once there is enough text for one.
std::size_t PlainTextReader::find_cut() {
  const std::string_view text = ahead();
  const std::size_t margin = std::max<std::size_t>(options_.separator.size(), 1);
  if (text.size() < std::max(options_.piece_bytes, margin + 1)) {
    return kNotFound;
  }
  const std::size_t limit = text.size() - margin;  // later, a separator could lie across the cut
  const std::string_view searched = text.substr(cut_from_, limit - cut_from_);
  std::size_t found = searched.rfind('\n');
  while (found != kNotFound &&
         text[cut_from_ + found + 1] == '\n') {  // a run that may go on: before it
    found = searched.find_last_not_of('\n', found);
    found = found == kNotFound ? kNotFound : searched.rfind('\n', found);
  }
  if (found != kNotFound) {
    return cut_from_ + found + 1;
  }
  cut_from_ = limit;
  if (text.size() <= options_.max_line_bytes + options_.piece_bytes) {
    return kNotFound;
  }
  if (text[limit - 1] != '\n') {
    fail_long_line(line_ends_ + 1);
  }
  return limit;  // nothing but line ends for so long: the bound on memory goes first
}

void PlainTextReader::use(std::size_t size) {
  begin_ += size;
  separator_from_ = 0;
  cut_from_ = 0;
}

void PlainTextReader::use_separator() {
  for_each_line(options_.separator, [this](std::string_view line) { count_line(line); });
  use(options_.separator.size());
}

void PlainTextReader::read_more() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  incoming_.resize(kPlainReadBytes);
  const std::size_t got = source_->read(incoming_.data(), incoming_.size());
  source_ended_ = got == 0;
  append_with_lf(std::string_view(incoming_).substr(0, got));
}

// buffer_ <- buffer_ + bytes with each CRLF as LF. A CR at the end waits for the next call.
void PlainTextReader::append_with_lf(std::string_view bytes) {
  if (pending_cr_ && !bytes.starts_with('\n')) {
    buffer_ += '\r';
  }
  pending_cr_ = bytes.ends_with('\r');
  bytes.remove_suffix(pending_cr_ ? 1 : 0);
  while (!bytes.empty()) {
    const std::size_t found = bytes.find("\r\n");
    buffer_ += bytes.substr(0, found);
    bytes.remove_prefix(found == kNotFound ? bytes.size() : found + 1);
  }
}

// The text without its broken lines; counts lines and measures them.
std::string_view PlainTextReader::check_lines(std::string_view text) {
  const bool all_valid = is_utf8(text);
  cleaned_.clear();
  for_each_line(text, [&](std::string_view line) {
    const std::int64_t number = line_ends_ + 1;
    count_line(line);
    if (line.size() - (line.ends_with('\n') ? 1 : 0) > options_.max_line_bytes) {
      fail_long_line(number);
    }
    const std::size_t invalid = all_valid ? kNotFound : find_invalid_utf8(line);
    if (invalid != kNotFound) {
      broken_.add(number, concat("invalid UTF-8 at byte ", invalid + 1, " of the line"));
    } else if (!all_valid) {
      cleaned_ += line;
    }
  });
  return all_valid ? text : cleaned_;
}

void PlainTextReader::count_line(std::string_view line) {
  line_ends_ += line.ends_with('\n') ? 1 : 0;
  report_.lines = line_ends_ + (line.ends_with('\n') ? 0 : 1);
}

void PlainTextReader::fail_long_line(std::int64_t number) const {
  fail(report_.file, " line ", number, ": longer than ", options_.max_line_bytes,
       " bytes; break it into lines");
}

}  // namespace darkformer
