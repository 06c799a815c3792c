// Reads tokenizer.json; its half a million merges are checked as they pass and not kept.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr std::int64_t kMostPieceIds = std::int64_t{1} << 24;

// A placeholder for images: text never makes it, and text-only models have no row for it.
constexpr std::string_view kImagePlaceholder = "<image_soft_token>";

struct Merge {
  std::string left;
  std::string right;
};

// "a b" in older files, ["a", "b"] in newer ones.
Merge read_merge(const Json& value, const std::string& source) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() &&
             value[1].is_string()) {
    return {value[0].get<std::string>(), value[1].get<std::string>()};
  }
  fail(source, ": a merge is not two pieces: ", printable(value.dump()));
}

// The texts that the merges make, in the merges' order, each once; filled while the file is parsed.
struct MergedTexts {
  std::vector<std::string> texts;

  void add(const Json& merge, const std::string& source) {
    Merge parts = read_merge(merge, source);
    parts.left += parts.right;
    if (texts.empty() || texts.back() != parts.left) {
      texts.push_back(std::move(parts.left));
    }
  }
};

// Takes every element of model.merges out of the document as soon as it is complete.
class MergeFilter {
 public:
  MergeFilter(MergedTexts& merged, const std::string& source) : merged_(merged), source_(source) {}

  bool keep(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) {
      in_model_ = value == "model";
      in_merges_ = false;
    } else if (event == Json::parse_event_t::key && depth == 2) {
      in_merges_ = in_model_ && value == "merges";
    } else if (in_merges_ && depth == 3 && is_complete(event)) {
      merged_.add(value, source_);
      return false;
    }
    return true;
  }

 private:
  static bool is_complete(Json::parse_event_t event) {
    return event == Json::parse_event_t::value || event == Json::parse_event_t::array_end ||
           event == Json::parse_event_t::object_end;
  }

  MergedTexts& merged_;
  const std::string& source_;
  bool in_model_ = false;
  bool in_merges_ = false;
};

const Json& member(const Json& object, const std::string& key, const std::string& source) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  require(found != object.end(), source, ": \"", key, "\" is missing; not a Gemma tokenizer.json");
  return *found;
}

void check_settings(const Json& document, const Json& model, const std::string& source) {
  const auto type = find_value<std::string>(model, "type", source).value_or("BPE");
  require(type == "BPE", source, ": model type is ", printable(type), "; Gemma's is BPE");
  require(find_value<bool>(model, "byte_fallback", source).value_or(false), source,
          ": has no byte_fallback; Gemma's tokenizers do");
  const Json wanted = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  const Json& normalizer = member(document, "normalizer", source);
  require(normalizer == wanted, source, ": its normalizer is ", printable(normalizer.dump()),
          "; Gemma's writes a space as U+2581 and does nothing else");
}

// Places pieces by id and remembers which ids are taken.
class PieceTable {
 public:
  explicit PieceTable(const std::string& source) : source_(source) {}

  void place(const std::string& text, std::int64_t id) {
    require(id >= 0 && id < kMostPieceIds, source_, ": piece '", printable(text),
            "' has the absurd id ", id);
    const auto [entry, added] = ids_.emplace(text, id);
    if (added) {
      order_.emplace_back(id, text);
    }
    require(entry->second == id, source_, ": piece '", printable(text), "' has two ids, ",
            entry->second, " and ", id);
  }

  std::vector<Piece> take() {
    std::sort(order_.begin(), order_.end());
    std::vector<Piece> pieces(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      auto& [id, text] = order_[i];
      require(id >= static_cast<std::int64_t>(i), source_, ": id ", id, " is used twice");
      require(id == static_cast<std::int64_t>(i), source_, ": there is no piece with id ", i);
      pieces[i].text = std::move(text);
      pieces[i].score = -static_cast<float>(i);
    }
    return pieces;
  }
  std::int64_t find(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }

 private:
  const std::string& source_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::vector<std::pair<std::int64_t, std::string>> order_;
};

// Bytes are <0x00> ... <0xFF> in a row. Gemma 1 and 2 write <0x09> as a literal tab.
void mark_bytes(const PieceTable& table, std::vector<Piece>& pieces, const std::string& source) {
  const std::int64_t first = table.find(byte_piece(0));
  require(first >= 0, source, ": no byte piece <0x00>; Gemma's tokenizers have all 256");
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::int64_t id = table.find(byte_piece(byte));
    const std::int64_t in_row = first + byte;
    if (id < 0 && in_row < static_cast<std::int64_t>(pieces.size()) &&
        pieces[in_row].text == std::string(1, static_cast<char>(byte))) {
      id = in_row;
    }
    require(id >= 0, source, ": no byte piece ", byte_piece(byte));
    pieces[id].text = byte_piece(byte);
    pieces[id].type = PieceType::kByte;
  }
}

PieceType added_type(const TokenizerModel& model, const std::string& content) {
  if (content == model.unk) {
    return PieceType::kUnknown;
  }
  const bool control = content == model.pad || content == model.bos || content == model.eos ||
                       content == kImagePlaceholder;
  return control ? PieceType::kControl : PieceType::kUserDefined;
}

// The order of the merges must be the order of the ids, or -id would be the wrong score. Added
// tokens are found before anything is merged: their place does not matter.
void check_merge_order(const MergedTexts& merged,
                       const PieceTable& table,
                       const std::vector<Piece>& pieces,
                       const std::string& source) {
  std::int64_t last = -1;
  for (const std::string& text : merged.texts) {
    const std::int64_t id = table.find(text);
    require(id >= 0, source, ": a merge makes '", printable(text), "', which is no piece");
    if (pieces[id].type != PieceType::kNormal) {
      continue;
    }
    require(id >= last, source, ": merges are not in the order of ids (at '", printable(text),
            "'); not a Gemma tokenizer: use its tokenizer.model");
    last = id;
  }
}

}  // namespace

TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source) {
  MergedTexts merged;
  MergeFilter filter(merged, source);
  const Json document = parse_filtered_json(text, source, [&](int depth, auto event, Json& value) {
    return filter.keep(depth, event, value);
  });
  const Json& model = member(document, "model", source);
  check_settings(document, model, source);

  PieceTable table(source);
  const Json& vocab = member(model, "vocab", source);
  require(vocab.is_object(), source, ": \"vocab\" must map pieces to ids");
  for (const auto& [piece, id] : vocab.items()) {
    require(id.is_number_integer(), source, ": the id of piece '", printable(piece),
            "' is no whole number");
    table.place(piece, id.get<std::int64_t>());
  }
  std::vector<std::string> added;
  for (const Json& token : member(document, "added_tokens", source)) {
    require(token.is_object(), source, ": \"added_tokens\" must be a list of objects");
    added.push_back(get_value<std::string>(token, "content", source));
    table.place(added.back(), get_value<std::int64_t>(token, "id", source));
  }
  TokenizerModel result;
  result.unk = find_value<std::string>(model, "unk_token", source).value_or(result.unk);
  result.pieces = table.take();
  mark_bytes(table, result.pieces, source);
  for (const std::string& content : added) {
    result.pieces[table.find(content)].type = added_type(result, content);
  }
  check_merge_order(merged, table, result.pieces, source);
  return result;
}

}  // namespace darkformer
