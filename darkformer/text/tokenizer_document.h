// tokenizer.json as a document whose half a million merges are kept apart, packed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

// Merges in the file's order. "a b" in older files, ["a", "b"] in newer ones.
class MergeTexts {
 public:
  std::size_t size() const { return merges_.size(); }
  std::string_view left(std::size_t i) const { return joined(i).substr(0, merges_[i].left); }
  std::string_view right(std::size_t i) const { return joined(i).substr(merges_[i].left); }
  std::string_view joined(std::size_t i) const {
    return std::string_view(bytes_).substr(merges_[i].begin, merges_[i].size);
  }

  // Error, naming `source`: not two pieces.
  void add(const Json& merge, const std::string& source);

 private:
  struct Merge {
    std::uint32_t begin;
    std::uint32_t left;
    std::uint32_t size;
  };

  std::string bytes_;
  std::vector<Merge> merges_;
};

struct TokenizerDocument {
  Json json;  // without model.merges' elements
  MergeTexts merges;

  const Json& model() const { return json.at("model"); }
};

// Error, naming `source`: not JSON, cut short, no model, a merge that is not two pieces.
TokenizerDocument parse_tokenizer_document(std::string_view text, const std::string& source);

// object[key]; a missing one is an Error.
const Json& document_member(const Json& object, const std::string& key, const std::string& source);

// Places pieces by id and remembers which ids are taken.
class PieceTable {
 public:
  explicit PieceTable(const std::string& source) : source_(source) {}

  // model.vocab and added_tokens of the document. Error: ids that are no whole numbers, absurd,
  // used twice or with holes; a piece with two ids.
  void place_all(const Json& document);
  // The pieces by their ids, with the score -id.
  std::vector<Piece> take();
  // -1 if there is none.
  std::int64_t find(const std::string& text) const;

 private:
  void place(const std::string& text, std::int64_t id);

  const std::string& source_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::vector<std::pair<std::int64_t, std::string>> order_;
};

}  // namespace darkformer
