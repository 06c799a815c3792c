// Added tokens, normalisation, words, merges: one run over a text does them in turn.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/merge_list_encoder.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/text/byte_alphabet.h"
#include "darkformer/text/nfc.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 29;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

std::vector<AddedToken> chosen_tokens(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> chosen;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(chosen),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return chosen;
}

}  // namespace

// What one call of encode() needs.
class MergeListEncoder::Run {
 public:
  Run(const MergeListEncoder& encoder, const EncodeOptions& options, std::vector<std::int32_t>& ids)
      : encoder_(encoder), options_(options), ids_(ids), merging_(encoder.model_.merges) {
    for (const CutStep& step : encoder.model_.cut) {
      splitters_.emplace_back();
      if (!step.splits.empty()) {
        splitters_.back().emplace(step.splits.front());
      }
    }
  }

  void encode(std::string_view text) {
    bool begins = true;  // has nothing of the text been used yet?
    const auto add = [&](std::int32_t id) {
      ids_.push_back(id);
      begins = false;
    };
    const auto words = [&](std::string_view part) { cut(0, part, std::exchange(begins, false)); };
    const auto normalized = [&](std::string_view part) {
      std::string& kept = kept_.emplace_back();
      const bool goes_on = begins && options_.place == TextPlace::kInside;
      const std::string_view normal = encoder_.normalize(part, !goes_on, kept);
      encoder_.normalized_added_.cut(normal, options_.markers, words, add);
    };
    encoder_.raw_added_.cut(text, options_.markers, normalized, add);
  }

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  // The words of `text` from this step on. `begins`: does it begin the whole text?
  void cut(std::size_t step_index, std::string_view text, bool begins) {
    if (step_index == encoder_.model_.cut.size()) {
      cut_at_spaces(text);
      return;
    }
    text = with_prefix(encoder_.model_.cut[step_index], text, begins);
    auto& splitter = splitters_[step_index];
    if (!splitter) {
      cut(step_index + 1, text, begins);
      return;
    }
    splitter->split(text, [&](std::string_view word) {
      cut(step_index + 1, word, begins && word.data() == text.data());
    });
  }

  std::string_view with_prefix(const CutStep& step, std::string_view text, bool begins) {
    if (!step.spaces_become.empty()) {
      text = kept_.emplace_back(replace_all(text, " ", step.spaces_become));
    }
    const bool wanted =
        (step.prefix == CutStep::Prefix::kAlways &&
         !(begins && options_.place == TextPlace::kInside)) ||
        (step.prefix == CutStep::Prefix::kFirst && begins && options_.place == TextPlace::kStart);
    if (!wanted || text.starts_with(step.prefix_text)) {
      return text;
    }
    std::string& kept = kept_.emplace_back(step.prefix_text);
    return kept.append(text);
  }

  // Without words of the file's own the text is cut where no merge can reach over.
  void cut_at_spaces(std::string_view text) {
    if (encoder_.model_.byte_level || encoder_.model_.ignore_merges) {
      add_word(text);
      return;
    }
    std::size_t begin = 0;
    for (std::size_t at = text.find(kSpace, 1); at < text.size(); at = text.find(kSpace, at + 1)) {
      if (encoder_.cut_before_space(text.substr(begin, at - begin))) {
        add_word(text.substr(begin, at - begin));
        begin = at;
      }
    }
    add_word(text.substr(begin));
  }

  // Words come again and again: what the first one gave is copied.
  void add_word(std::string_view word) {
    if (encoder_.model_.ignore_merges) {
      const auto whole = encoder_.words_.find(word);
      if (whole != encoder_.words_.end()) {
        ids_.push_back(whole->second);
        return;
      }
    }
    const auto [known, is_new] = seen_.try_emplace(word);
    if (is_new) {
      symbols_.clear();
      encoder_.append_symbols(word, symbols_);
      merging_.run(symbols_);
      known->second = {ids_.size(), ids_.size() + symbols_.size()};
      ids_.insert(ids_.end(), symbols_.begin(), symbols_.end());
      return;
    }
    const auto [begin, end] = known->second;
    for (std::size_t i = begin; i < end; ++i) {
      ids_.push_back(ids_[i]);
    }
  }

  const MergeListEncoder& encoder_;
  const EncodeOptions& options_;
  std::vector<std::int32_t>& ids_;
  MergeRun merging_;
  std::vector<std::optional<TextSplitter>> splitters_;
  std::deque<std::string> kept_;  // texts that words are views of
  std::vector<std::int32_t> symbols_;
  std::unordered_map<std::string_view, Range> seen_;  // where in ids_ a word's result stands
};

MergeListEncoder::MergeListEncoder(MergeListModel model)
    : model_(std::move(model)), raw_added_(chosen_tokens(model_.added, false)) {
  std::vector<AddedToken> normalized = chosen_tokens(model_.added, true);
  for (AddedToken& token : normalized) {
    std::string out;
    token.content = std::string(normalize(token.content, true, out));
  }
  normalized_added_ = AddedTokens(std::move(normalized));
  ids_.reserve(model_.pieces.size());
  texts_.reserve(model_.pieces.size());
  for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
    const Piece& piece = model_.pieces[id];
    ids_.emplace(piece.text, static_cast<std::int32_t>(id));
    texts_.push_back(
        model_.byte_level ? spelled_bytes(piece.text).value_or(piece.text)
        : piece.type == PieceType::kByte
            ? std::string(1, static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16)))
            : replace_all(piece.text, kSpace, " "));
  }
  index_symbols();
  index_joined_spaces();
}

void MergeListEncoder::index_symbols() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = find(model_.byte_level ? byte_character(static_cast<unsigned char>(byte))
                                             : byte_piece(byte));
  }
  ascii_.fill(-1);
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const Piece& piece = model_.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) {
      continue;
    }
    if (model_.ignore_merges) {
      words_.emplace(model_.byte_level ? std::string_view(texts_[i]) : piece.text, id);
    }
    if (model_.byte_level || character_length(piece.text) != piece.text.size()) {
      continue;
    }
    if (piece.text.size() == 1) {
      ascii_[static_cast<unsigned char>(piece.text[0])] = id;
    } else {
      characters_.emplace(piece.text, id);
    }
  }
}

void MergeListEncoder::index_joined_spaces() {
  for (const Piece& piece : model_.pieces) {
    const bool mergeable =
        piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
    std::string before;
    for (std::string_view rest = piece.text; mergeable && !model_.byte_level && !rest.empty();) {
      const std::size_t length = std::max<std::size_t>(character_length(rest), 1);
      if (!before.empty() && rest.substr(0, length) == kSpace) {
        joins_space_.insert(before);
      }
      before = rest.substr(0, length);
      rest.remove_prefix(length);
    }
  }
}

bool MergeListEncoder::cut_before_space(std::string_view before) const {
  std::size_t start = before.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(before[start]) & 0xC0) == 0x80) {
    --start;
  }
  return !joins_space_.contains(std::string(before.substr(start)));
}

std::int32_t MergeListEncoder::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

std::string_view MergeListEncoder::normalize(std::string_view text,
                                             bool may_prepend,
                                             std::string& out) const {
  std::string changed;
  for (const NormalizeStep& step : model_.normalize) {
    if (step.kind == NormalizeStep::Kind::kNfc) {
      if (to_nfc(text, changed).data() == text.data()) {
        continue;
      }
    } else if (step.kind == NormalizeStep::Kind::kReplace) {
      changed = replace_all(text, step.from, step.to);
    } else if (may_prepend && !text.empty()) {
      changed = step.to + std::string(text);
    } else {
      continue;
    }
    std::swap(out, changed);
    text = out;
  }
  return text;
}

void MergeListEncoder::append_symbols(std::string_view word,
                                      std::vector<std::int32_t>& symbols) const {
  for (std::size_t at = 0; at < word.size();) {
    const auto byte = static_cast<unsigned char>(word[at]);
    if (model_.byte_level) {
      symbols.push_back(byte_ids_[byte]);
      ++at;
      continue;
    }
    const std::string_view character = word.substr(at, character_length(word.substr(at)));
    at += character.size();
    std::int32_t id = -1;
    if (byte < 0x80) {
      id = ascii_[byte];
    } else if (const auto found = characters_.find(character); found != characters_.end()) {
      id = found->second;
    }
    if (id >= 0) {
      symbols.push_back(id);
      continue;
    }
    for (const char part : character) {
      symbols.push_back(byte_ids_[static_cast<unsigned char>(part)]);
    }
  }
}

void MergeListEncoder::encode(std::string_view text,
                              const EncodeOptions& options,
                              std::vector<std::int32_t>& ids) const {
  require(text.size() <= kMostTextBytes, "tokenizer: more than 512 MiB in one piece; cut the text");
  if (is_utf8(text)) {
    Run(*this, options, ids).encode(text);
  } else {
    Run(*this, options, ids).encode(replace_invalid_utf8(text));
  }
}

PieceText MergeListEncoder::piece_text(std::int32_t id) const {
  const Piece& piece = model_.pieces[static_cast<std::size_t>(id)];
  const bool silent = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
  if (silent) {
    return {.text = "", .is_bytes = false, .ends_bytes = !model_.byte_level};
  }
  return {.text = texts_[static_cast<std::size_t>(id)],
          .is_bytes = model_.byte_level || piece.type == PieceType::kByte};
}

DecodeRules MergeListEncoder::decode_rules() const {
  using enum DecodeRules::LeadingSpace;
  return {.leading_space = model_.strips_space ? kTaken : kKept,
          .replaces_each_byte = !model_.byte_level};
}

}  // namespace darkformer
