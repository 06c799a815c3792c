// Byte-pair encoding with a heap of candidate joins; the text is cut where no piece can reach over.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_bpe.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 29;  // times 3 (a space's length) fits an int

bool is_mergeable(PieceType type) {
  return type == PieceType::kNormal || type == PieceType::kUserDefined ||
         type == PieceType::kUnused;
}

std::string normalize(std::string_view text, bool with_prefix) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  out += with_prefix && !text.empty() ? kSpace : "";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (text[0] == ' ') {
      out += kSpace;
    } else if (length == 0) {
      out += kReplacement;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t at = piece.find(kSpace); at != std::string_view::npos; at = piece.find(kSpace)) {
    out.append(piece.substr(0, at)).append(" ");
    piece.remove_prefix(at + kSpace.size());
  }
  return out.append(piece);
}

struct Symbol {
  int begin = 0;
  int size = 0;  // 0: joined into its left neighbour
  int previous = -1;
  int next = -1;
};

struct Join {
  float score;
  int left;
  int right;
  int size;  // of both together when proposed; another size since means that it is out of date

  bool operator<(const Join& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

}  // namespace

struct BytePairEncoder::Scratch {
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<std::int32_t>& ids;
  bool with_markers;
  std::vector<Symbol> symbols;
  std::priority_queue<Join> joins;
  // Joined texts that are kUnused pieces, and how long their left part was.
  std::unordered_map<std::string_view, std::size_t> unused;
  bool after_unknown = false;
  std::unordered_map<std::string_view, Range> seen;  // where in ids a segment's result stands
};

BytePairEncoder::BytePairEncoder(TokenizerModel model,
                                 const std::vector<std::string>& markers,
                                 const std::string& source)
    : model_(std::move(model)) {
  check_pieces(source);
  ids_.reserve(model_.pieces.size());
  for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
    const Piece& piece = model_.pieces[id];
    const bool added = ids_.emplace(piece.text, static_cast<std::int32_t>(id)).second;
    require(added, source, ": piece '", printable(piece.text), "' is there twice (id ", id, ")");
    has_unused_ = has_unused_ || piece.type == PieceType::kUnused;
    if (piece.type == PieceType::kUnknown) {
      require(unk_ < 0, source, ": two unknown pieces, ids ", unk_, " and ", id);
      unk_ = static_cast<std::int32_t>(id);
    }
  }
  require(unk_ >= 0, source, ": no piece of type 'unknown'");
  index_bytes(source);
  index_user_defined(markers);
  index_joined_spaces();
}

void BytePairEncoder::check_pieces(const std::string& source) const {
  for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
    const Piece& piece = model_.pieces[id];
    require(!piece.text.empty(), source, ": piece ", id, " is empty");
    require(is_utf8(piece.text), source, ": piece ", id, " is not UTF-8");
    require(std::isfinite(piece.score), source, ": piece '", printable(piece.text),
            "' has no finite score");
  }
}

void BytePairEncoder::index_bytes(const std::string& source) {
  for (unsigned byte = 0; byte < 256 && model_.byte_fallback; ++byte) {
    const std::int32_t id = find(byte_piece(byte));
    require(id >= 0 && model_.pieces[id].type == PieceType::kByte, source, ": no byte piece ",
            byte_piece(byte));
    byte_ids_[byte] = id;
  }
  const auto is_byte = [](const Piece& piece) { return piece.type == PieceType::kByte; };
  const auto bytes = std::count_if(model_.pieces.begin(), model_.pieces.end(), is_byte);
  require(bytes == (model_.byte_fallback ? 256 : 0), source, ": ", bytes,
          " byte pieces; wanted <0x00> to <0xFF> with byte_fallback, none without");
}

void BytePairEncoder::index_user_defined(const std::vector<std::string>& markers) {
  for (const Piece& piece : model_.pieces) {
    if (piece.type == PieceType::kUserDefined) {
      user_defined_.push_back(piece.text);
      starts_user_defined_[static_cast<unsigned char>(piece.text[0])] = true;
    }
  }
  std::sort(user_defined_.begin(), user_defined_.end());
  for (const std::string& marker : markers) {
    const std::int32_t id = find(marker);
    if (id >= 0) {
      markers_.insert(id);
    }
  }
}

void BytePairEncoder::index_joined_spaces() {
  for (const Piece& piece : model_.pieces) {
    if (!is_mergeable(piece.type)) {
      continue;
    }
    std::string before;
    for (std::string_view rest = piece.text; !rest.empty();) {
      const std::size_t length = character_length(rest);
      if (!before.empty() && rest.substr(0, length) == kSpace) {
        joins_space_.insert(before);
      }
      before = rest.substr(0, length);
      rest.remove_prefix(length);
    }
  }
}

std::int32_t BytePairEncoder::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

PieceText BytePairEncoder::piece_text(std::int32_t id) const {
  const Piece& piece = model_.pieces[id];
  switch (piece.type) {
    case PieceType::kByte:
      return {std::string(1, static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16))),
              true};
    case PieceType::kControl:
      return {};
    case PieceType::kUnknown:
      return {" \xE2\x81\x87 "};  // U+2047, as SentencePiece shows it
    default:
      return {with_spaces(piece.text)};
  }
}

DecodeRules BytePairEncoder::decode_rules() const {
  using enum DecodeRules::LeadingSpace;
  return {.leading_space = model_.dummy_prefix ? kTakenFromPiece : kKept};
}

std::int32_t BytePairEncoder::text_ids() const {
  std::size_t count = model_.pieces.size();
  while (count > 0 && model_.pieces[count - 1].type == PieceType::kControl) {
    --count;
  }
  return static_cast<std::int32_t>(count);
}

// The longest user-defined piece that text starts with: the sorted list is narrowed by one more
// byte of text at a time.
std::int32_t BytePairEncoder::match_user_defined(std::string_view text, bool with_markers) const {
  if (!starts_user_defined_[static_cast<unsigned char>(text[0])]) {
    return -1;
  }
  std::int32_t longest = -1;
  auto begin = user_defined_.begin();
  auto end = user_defined_.end();
  for (std::size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](std::string_view piece) {
      return depth < piece.size() ? static_cast<unsigned char>(piece[depth]) : -1;
    };
    begin = std::partition_point(begin, end, [&](auto piece) { return byte_at(piece) < wanted; });
    end = std::partition_point(begin, end, [&](auto piece) { return byte_at(piece) == wanted; });
    if (begin != end && begin->size() == depth + 1) {  // the shortest of a range comes first
      const std::int32_t id = find(*begin);
      longest = with_markers || !markers_.contains(id) ? id : longest;
    }
  }
  return longest;
}

std::int32_t BytePairEncoder::find_mergeable(std::string_view text) const {
  const std::int32_t id = find(text);
  return id >= 0 && is_mergeable(model_.pieces[id].type) ? id : -1;
}

// True if no piece has the last character of `before` followed by a space, so that nothing can be
// joined across: words can be merged one by one.
bool BytePairEncoder::cut_before_space(std::string_view before) const {
  std::size_t start = before.size() - 1;
  while ((static_cast<unsigned char>(before[start]) & 0xC0) == 0x80) {
    --start;
  }
  return !joins_space_.contains(std::string(before.substr(start)));
}

void BytePairEncoder::encode(std::string_view text,
                             const EncodeOptions& options,
                             std::vector<std::int32_t>& ids) const {
  require(text.size() <= kMostBytes, "tokenizer: more than 512 MiB in one piece; cut the text");
  const bool starts = options.place == TextPlace::kStart || options.place == TextPlace::kAfterBos;
  const bool with_markers = options.markers;
  const std::string normalized = normalize(text, model_.dummy_prefix && starts);
  const std::string_view all = normalized;
  Scratch scratch{ids, with_markers, {}, {}, {}, false, {}};
  std::size_t start = 0;
  const auto flush = [&](std::size_t end) {
    if (end > start) {
      encode_segment(all.substr(start, end - start), scratch);
    }
    start = end;
  };
  for (std::size_t at = 0; at < all.size();) {
    const std::string_view rest = all.substr(at);
    const std::int32_t id = match_user_defined(rest, with_markers);
    if (id >= 0) {
      flush(at);
      ids.push_back(id);
      scratch.after_unknown = false;
      at += model_.pieces[id].text.size();
      start = at;
      continue;
    }
    if (at > start && rest.starts_with(kSpace) && cut_before_space(all.substr(start, at - start))) {
      flush(at);
    }
    at += character_length(rest);
  }
  flush(all.size());
}

// Words come again and again: what the first one gave is copied. Not without byte fallback, where a
// run of unknown characters may reach over the border of a segment.
void BytePairEncoder::encode_segment(std::string_view segment, Scratch& scratch) const {
  std::vector<std::int32_t>& ids = scratch.ids;
  const auto [known, first] = scratch.seen.try_emplace(segment);
  if (first || !model_.byte_fallback) {
    const std::size_t begin = ids.size();
    merge_segment(segment, scratch);
    known->second = {begin, ids.size()};
    return;
  }
  const auto [begin, end] = known->second;
  for (std::size_t i = begin; i < end; ++i) {
    ids.push_back(ids[i]);
  }
}

void BytePairEncoder::propose(std::string_view segment,
                              int left,
                              int right,
                              Scratch& scratch) const {
  if (left < 0 || right < 0) {
    return;
  }
  const Symbol& first = scratch.symbols[left];
  const int size = first.size + scratch.symbols[right].size;
  const std::string_view joined = segment.substr(first.begin, size);
  const std::int32_t id = find_mergeable(joined);
  if (id < 0 || (!scratch.with_markers && markers_.contains(id))) {
    return;
  }
  scratch.joins.push({model_.pieces[id].score, left, right, size});
  if (has_unused_ && model_.pieces[id].type == PieceType::kUnused) {
    scratch.unused[joined] = first.size;
  }
}

void BytePairEncoder::merge_segment(std::string_view segment, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.unused.clear();
  for (std::size_t at = 0; at < segment.size();) {
    const auto length = character_length(segment.substr(at));
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({static_cast<int>(at), static_cast<int>(length), index - 1, index + 1});
    at += length;
  }
  symbols.back().next = -1;
  for (int i = 1; i < static_cast<int>(symbols.size()); ++i) {
    propose(segment, i - 1, i, scratch);
  }
  while (!scratch.joins.empty()) {
    const Join join = scratch.joins.top();
    scratch.joins.pop();
    Symbol& left = symbols[join.left];
    Symbol& right = symbols[join.right];
    if (left.size == 0 || right.size == 0 || left.size + right.size != join.size) {
      continue;
    }
    left.size = join.size;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) {
      symbols[left.next].previous = join.left;
    }
    propose(segment, left.previous, join.left, scratch);
    propose(segment, join.left, left.next, scratch);
  }
  for (int i = 0; i >= 0; i = symbols[i].next) {
    emit(segment.substr(symbols[i].begin, symbols[i].size), scratch);
  }
}

void BytePairEncoder::emit(std::string_view piece, Scratch& scratch) const {
  const std::int32_t id = find(piece);
  if (id >= 0 && has_unused_ && model_.pieces[id].type == PieceType::kUnused) {
    const auto split = scratch.unused.find(piece);
    if (split != scratch.unused.end()) {
      const std::size_t left = split->second;
      emit(piece.substr(0, left), scratch);
      emit(piece.substr(left), scratch);
      return;
    }
  }
  const bool unknown = id < 0 || id == unk_;
  if (unknown && model_.byte_fallback) {
    for (const char byte : piece) {
      scratch.ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    }
  } else if (!unknown) {
    scratch.ids.push_back(id);
  } else if (!scratch.after_unknown) {  // a run of unknown characters is one id
    scratch.ids.push_back(unk_);
  }
  scratch.after_unknown = unknown && !model_.byte_fallback;
}

}  // namespace darkformer
