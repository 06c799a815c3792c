// Reads tokenizer.json; merges are taken out of the document as they pass.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_document.h"

#include <algorithm>
#include <limits>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr std::int64_t kMostPieceIds = std::int64_t{1} << 24;

// Takes every element of model.merges out of the document as soon as it is complete.
class MergeFilter {
 public:
  MergeFilter(MergeTexts& merges, const std::string& source) : merges_(merges), source_(source) {}

  bool keep(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) {
      in_model_ = value == "model";
      in_merges_ = false;
    } else if (event == Json::parse_event_t::key && depth == 2) {
      in_merges_ = in_model_ && value == "merges";
    } else if (in_merges_ && depth == 3 && is_complete(event)) {
      merges_.add(value, source_);
      return false;
    }
    return true;
  }

 private:
  static bool is_complete(Json::parse_event_t event) {
    return event == Json::parse_event_t::value || event == Json::parse_event_t::array_end ||
           event == Json::parse_event_t::object_end;
  }

  MergeTexts& merges_;
  const std::string& source_;
  bool in_model_ = false;
  bool in_merges_ = false;
};

}  // namespace

void MergeTexts::add(const Json& merge, const std::string& source) {
  std::string_view left;
  std::string_view right;
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos) {
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    left = merge[0].get_ref<const std::string&>();
    right = merge[1].get_ref<const std::string&>();
  }
  require(!left.empty() && !right.empty(), source,
          ": a merge is not two pieces: ", printable(merge.dump()));
  const std::size_t end = bytes_.size() + left.size() + right.size();
  require(end <= std::numeric_limits<std::uint32_t>::max(), source, ": more than 4 GiB of merges");
  merges_.push_back({static_cast<std::uint32_t>(bytes_.size()),
                     static_cast<std::uint32_t>(left.size()),
                     static_cast<std::uint32_t>(left.size() + right.size())});
  bytes_.append(left).append(right);
}

const Json& document_member(const Json& object, const std::string& key, const std::string& source) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  require(found != object.end(), source, ": \"", key, "\" is missing; not a tokenizer.json");
  return *found;
}

TokenizerDocument parse_tokenizer_document(std::string_view text, const std::string& source) {
  TokenizerDocument document;
  MergeFilter filter(document.merges, source);
  document.json = parse_filtered_json(text, source, [&](int depth, auto event, Json& value) {
    return filter.keep(depth, event, value);
  });
  const Json& model = document_member(document.json, "model", source);
  require(model.is_object(), source, ": \"model\" must be an object");
  const auto type = find_value<std::string>(model, "type", source).value_or("BPE");
  require(type == "BPE", source, ": model type is ", printable(type), "; wanted BPE");
  return document;
}

void PieceTable::place_all(const Json& document) {
  const Json& vocab = document_member(document.at("model"), "vocab", source_);
  require(vocab.is_object(), source_, ": \"vocab\" must map pieces to ids");
  ids_.reserve(vocab.size());
  for (const auto& [piece, id] : vocab.items()) {
    require(id.is_number_integer(), source_, ": the id of piece '", printable(piece),
            "' is no whole number");
    place(piece, id.get<std::int64_t>());
  }
  const Json& added = document_member(document, "added_tokens", source_);
  require(added.is_array(), source_, ": \"added_tokens\" must be a list of objects");
  for (const Json& token : added) {
    require(token.is_object(), source_, ": \"added_tokens\" must be a list of objects");
    place(get_value<std::string>(token, "content", source_),
          get_value<std::int64_t>(token, "id", source_));
  }
}

void PieceTable::place(const std::string& text, std::int64_t id) {
  require(id >= 0 && id < kMostPieceIds, source_, ": piece '", printable(text),
          "' has the absurd id ", id);
  const auto [entry, added] = ids_.emplace(text, id);
  if (added) {
    order_.emplace_back(id, text);
  }
  require(entry->second == id, source_, ": piece '", printable(text), "' has two ids, ",
          entry->second, " and ", id);
}

std::vector<Piece> PieceTable::take() {
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

std::int64_t PieceTable::find(const std::string& text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace darkformer
