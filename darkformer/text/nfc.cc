// Form C by utf8proc's tables, for the stretches of text that can change at all.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <vector>

namespace darkformer {
namespace {

struct CodePoint {
  utf8proc_int32_t value;
  std::size_t length;
};

CodePoint code_point_at(std::string_view text, std::size_t at) {
  CodePoint point{0, 1};
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  const auto length =
      utf8proc_iterate(bytes + at, std::min<utf8proc_ssize_t>(left, 4), &point.value);
  assert(length > 0);
  point.length = static_cast<std::size_t>(std::max<utf8proc_ssize_t>(length, 1));
  return point;
}

// Characters that form C neither changes nor joins to what stands before them (Unicode's NFC_QC =
// Yes and class 0), in the blocks where most text lives. Others are looked at closely.
bool is_plain(utf8proc_int32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48A && c <= 0x52F) ||
         (c >= 0x5D0 && c <= 0x5EA) || (c >= 0x620 && c <= 0x64A) || (c >= 0xE01 && c <= 0xE30) ||
         (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205E) ||
         (c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FA) ||
         (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) ||
         (c >= 0x1F300 && c <= 0x1FAFF);
}

int combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

void append_decomposed(utf8proc_int32_t c, std::vector<utf8proc_int32_t>& out) {
  constexpr utf8proc_ssize_t kRoom = 32;  // The longest canonical decomposition has 4.
  const std::size_t begin = out.size();
  out.resize(begin + kRoom);
  int unused = 0;
  const auto count =
      utf8proc_decompose_char(c, out.data() + begin, kRoom, UTF8PROC_DECOMPOSE, &unused);
  out.resize(begin + static_cast<std::size_t>(std::clamp<utf8proc_ssize_t>(count, 0, kRoom)));
}

// Marks in the order of their classes, those of one class as they came.
void sort_marks(std::vector<utf8proc_int32_t>& points) {
  for (auto begin = points.begin(); begin != points.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, points.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

void append_utf8(utf8proc_int32_t c, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(c, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

void append_composed(std::string_view stretch,
                     std::vector<utf8proc_int32_t>& points,
                     std::string& out) {
  points.clear();
  for (std::size_t at = 0; at < stretch.size();) {
    const CodePoint point = code_point_at(stretch, at);
    append_decomposed(point.value, points);
    at += point.length;
  }
  sort_marks(points);
  const auto count =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  assert(count >= 0);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(points[static_cast<std::size_t>(i)], out);
  }
}

// A stretch that may change: the plain character before it (an accent may join it) up to the next
// plain one. begin == end: there is none.
struct Stretch {
  std::size_t begin;
  std::size_t end;
};

Stretch next_stretch(std::string_view text, std::size_t from) {
  std::size_t last_plain = from;
  for (std::size_t at = from; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0xCC) {  // below U+0300
      last_plain = at;
      at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
      continue;
    }
    CodePoint point = code_point_at(text, at);
    if (is_plain(point.value)) {
      last_plain = at;
      at += point.length;
      continue;
    }
    while (at < text.size() && !is_plain((point = code_point_at(text, at)).value)) {
      at += point.length;
    }
    return {last_plain, at};
  }
  return {text.size(), text.size()};
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& out) {
  out.clear();
  std::vector<utf8proc_int32_t> points;
  std::string composed;
  std::size_t copied = 0;
  bool changed = false;
  for (std::size_t at = 0; at < text.size();) {
    const Stretch stretch = next_stretch(text, at);
    const std::string_view old = text.substr(stretch.begin, stretch.end - stretch.begin);
    composed.clear();
    append_composed(old, points, composed);
    if (composed != old) {
      changed = true;
      out += text.substr(copied, stretch.begin - copied);
      out += composed;
      copied = stretch.end;
    }
    at = stretch.end;
  }
  if (!changed) {
    return text;
  }
  out += text.substr(copied);
  return out;
}

}  // namespace darkformer
