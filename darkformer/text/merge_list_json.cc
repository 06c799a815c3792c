// tokenizer.json of Llama, Mistral and Qwen, read step by step; what we do not know is refused.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/text/byte_alphabet.h"
#include "darkformer/text/merge_list_model.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::size_t kMostSteps = 32;

// What GPT-2 cuts words by, and everybody whose ByteLevel says "use_regex".
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Reads "normalizer", "pre_tokenizer", "decoder" and "post_processor" into the model.
class StepReader {
 public:
  StepReader(const std::string& source, MergeListModel& model) : source_(source), model_(model) {}

  void read_normalizer(const Json& step) {
    for_each_step(step, "normalizer", "normalizers", [this](const Json& one) {
      const std::string type = type_of(one, "normalizer");
      if (type == "NFC") {
        add_normalizer({NormalizeStep::Kind::kNfc, "", ""});
      } else if (type == "Prepend") {
        add_normalizer({NormalizeStep::Kind::kPrepend, "", text(one, "prepend")});
      } else if (type == "Replace") {
        add_normalizer({NormalizeStep::Kind::kReplace, literal(one), text(one, "content")});
      } else {
        fail_unknown("normalizer", type);
      }
    });
  }

  void read_pre_tokenizer(const Json& step) {
    for_each_step(step, "pre_tokenizer", "pretokenizers", [this](const Json& one) {
      const std::string type = type_of(one, "pre_tokenizer");
      require(!model_.byte_level, source_, ": a step follows ByteLevel, which must be the last");
      require(model_.cut.size() < kMostSteps, source_, ": more than ", kMostSteps, " steps");
      if (type == "Split") {
        model_.cut.push_back({.splits = {read_split(one)}});
      } else if (type == "ByteLevel") {
        read_byte_level(one);
      } else if (type == "Metaspace") {
        read_metaspace(one);
      } else if (type == "Digits") {
        const bool single = find_value<bool>(one, "individual_digits", source_).value_or(false);
        model_.cut.push_back({.splits = {{.pattern = Regex("\\p{N}", source_),
                                          .behaviour = single ? SplitBehaviour::kIsolated
                                                              : SplitBehaviour::kContiguous}}});
      } else {
        fail_unknown("pre_tokenizer", type);
      }
    });
  }

  void read_decoder(const Json& step) {
    for_each_step(step, "decoder", "decoders", [this](const Json& one) {
      const std::string type = type_of(one, "decoder");
      if (type == "Strip") {
        const auto start = find_value<std::int64_t>(one, "start", source_).value_or(0);
        const auto stop = find_value<std::int64_t>(one, "stop", source_).value_or(0);
        require(text(one, "content") == " " && stop == 0 && (start == 0 || start == 1), source_,
                ": its decoder strips something else than one space at the start");
        model_.strips_space = start == 1;
      } else if (type == "Metaspace") {
        model_.strips_space = metaspace_prefix(one) != CutStep::Prefix::kNever;
      } else if (type == "ByteLevel" || type == "ByteFallback") {
        require((type == "ByteLevel") == model_.byte_level, source_, ": its decoder is ", type,
                ", which does not fit its pre_tokenizer");
      } else if (type == "Replace") {
        require(literal(one) == kSpace && text(one, "content") == " ", source_,
                ": its decoder replaces something else than U+2581 by a space");
      } else if (type != "Fuse") {
        fail_unknown("decoder", type);
      }
    });
  }

  // Only tells which piece stands first: callers of Tokenizer put it there.
  void read_post_processor(const Json& step) {
    for_each_step(step, "post_processor", "processors", [this](const Json& one) {
      const auto single = one.find("single");
      if (type_of(one, "post_processor") != "TemplateProcessing" || single == one.end() ||
          !single->is_array() || single->empty()) {
        return;
      }
      const Json& first = single->front();
      const auto special = first.is_object() ? first.find("SpecialToken") : first.end();
      if (special != first.end() && special->is_object()) {
        model_.bos = get_value<std::string>(*special, "id", source_);
      }
    });
  }

 private:
  template <class Read>
  void for_each_step(const Json& step, const char* what, const char* list, const Read& read) {
    if (step.is_null()) {
      return;
    }
    if (type_of(step, what) != "Sequence") {
      read(step);
      return;
    }
    const Json& steps = document_member(step, list, source_);
    require(steps.is_array(), source_, ": \"", list, "\" must be a list");
    for (const Json& one : steps) {
      read(one);
    }
  }

  std::string type_of(const Json& step, const char* what) const {
    require(step.is_object(), source_, ": a ", what, " must be an object");
    return get_value<std::string>(step, "type", source_);
  }
  std::string text(const Json& step, const char* key) const {
    return get_value<std::string>(step, key, source_);
  }
  [[noreturn]] void fail_unknown(const char* what, const std::string& type) const {
    fail(source_, ": its ", what, " has the step ", printable(type),
         ", which this program does not know");
  }

  // The text of {"pattern": {"String": text}}.
  std::string literal(const Json& step) const {
    const Json& pattern = document_member(step, "pattern", source_);
    require(pattern.is_object() && pattern.contains("String"), source_,
            ": a Replace with a pattern that is no plain text");
    std::string content = text(pattern, "String");
    require(!content.empty(), source_, ": a Replace of nothing");
    return content;
  }

  void add_normalizer(NormalizeStep step) {
    require(model_.normalize.size() < kMostSteps, source_, ": more than ", kMostSteps, " steps");
    model_.normalize.push_back(std::move(step));
  }

  SplitBehaviour behaviour(const std::string& name) const {
    if (name == "Isolated") {
      return SplitBehaviour::kIsolated;
    }
    if (name == "Removed") {
      return SplitBehaviour::kRemoved;
    }
    if (name == "MergedWithPrevious") {
      return SplitBehaviour::kMergedWithPrevious;
    }
    if (name == "MergedWithNext") {
      return SplitBehaviour::kMergedWithNext;
    }
    require(name == "Contiguous", source_, ": a Split with the unknown behavior '", printable(name),
            "'");
    return SplitBehaviour::kContiguous;
  }

  TextSplit read_split(const Json& step) const {
    TextSplit split;
    split.behaviour = behaviour(text(step, "behavior"));
    split.invert = find_value<bool>(step, "invert", source_).value_or(false);
    const Json& pattern = document_member(step, "pattern", source_);
    require(pattern.is_object(), source_, ": the pattern of a Split must be an object");
    if (pattern.contains("Regex")) {
      split.pattern.emplace(text(pattern, "Regex"), source_);
    } else {
      split.literal = text(pattern, "String");
      require(!split.literal.empty(), source_, ": a Split by nothing");
    }
    return split;
  }

  void read_byte_level(const Json& step) {
    CutStep cut;
    if (find_value<bool>(step, "add_prefix_space", source_).value_or(true)) {
      cut.prefix = CutStep::Prefix::kAlways;
      cut.prefix_text = " ";
    }
    if (find_value<bool>(step, "use_regex", source_).value_or(true)) {
      cut.splits.push_back({.pattern = Regex(kGpt2Pattern, source_)});
    }
    model_.cut.push_back(std::move(cut));
    model_.byte_level = true;
  }

  CutStep::Prefix metaspace_prefix(const Json& step) const {
    const bool old_form = find_value<bool>(step, "add_prefix_space", source_).value_or(true);
    const auto scheme = find_value<std::string>(step, "prepend_scheme", source_)
                            .value_or(old_form ? "always" : "never");
    require(scheme == "always" || scheme == "first" || scheme == "never", source_,
            ": the unknown prepend_scheme '", printable(scheme), "'");
    return scheme == "always"  ? CutStep::Prefix::kAlways
           : scheme == "first" ? CutStep::Prefix::kFirst
                               : CutStep::Prefix::kNever;
  }

  void read_metaspace(const Json& step) {
    CutStep cut;
    cut.prefix = metaspace_prefix(step);
    cut.prefix_text = text(step, "replacement");
    require(cut.prefix_text == kSpace, source_, ": a Metaspace with another sign than U+2581");
    cut.spaces_become = cut.prefix_text;
    if (find_value<bool>(step, "split", source_).value_or(true)) {
      cut.splits.push_back(
          {.literal = cut.prefix_text, .behaviour = SplitBehaviour::kMergedWithNext});
    }
    model_.cut.push_back(std::move(cut));
  }

  const std::string& source_;
  MergeListModel& model_;
};

// Text between signs that no words have: who writes it wants a control piece.
bool looks_like_marker(std::string_view content) {
  const auto within = [&](char open, char close) {
    return content.size() > 2 && content.front() == open && content.back() == close;
  };
  return within('<', '>') || within('[', ']') || content.starts_with("<|") ||
         content.ends_with("|>");
}

void read_added(const Json& list, const std::string& source, MergeListModel& model) {
  for (const Json& json : list) {
    const auto flag = [&](const char* key) {
      return find_value<bool>(json, key, source).value_or(false);
    };
    AddedToken token;
    token.content = get_value<std::string>(json, "content", source);
    token.id = static_cast<std::int32_t>(get_value<std::int64_t>(json, "id", source));
    token.special = flag("special");
    token.normalized = find_value<bool>(json, "normalized", source).value_or(!token.special);
    token.lstrip = flag("lstrip");
    token.rstrip = flag("rstrip");
    token.single_word = flag("single_word");
    token.marker = token.special || looks_like_marker(token.content);
    model.pieces[static_cast<std::size_t>(token.id)].type =
        token.content == model.unk ? PieceType::kUnknown
        : token.special            ? PieceType::kControl
                                   : PieceType::kUserDefined;
    model.added.push_back(std::move(token));
  }
}

// A merge that makes a control piece is left out: ordinary text must not become one.
void read_merges(const MergeTexts& texts,
                 const PieceTable& table,
                 const std::string& source,
                 MergeListModel& model) {
  model.merges = MergeTable(texts.size());
  const auto id_of = [&](std::string_view piece) {
    const std::int64_t id = table.find(std::string(piece));
    require(id >= 0, source, ": a merge has '", printable(piece), "', which is no piece");
    return static_cast<std::int32_t>(id);
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int32_t joined = id_of(texts.joined(i));
    const PieceType type = model.pieces[static_cast<std::size_t>(joined)].type;
    const std::int32_t left = id_of(texts.left(i));
    const std::int32_t right = id_of(texts.right(i));
    if (type != PieceType::kControl && type != PieceType::kUnknown) {
      model.merges.add(left, right, {static_cast<std::uint32_t>(i), joined});
    }
  }
}

void check_model(const Json& model, const std::string& source) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    require(find_value<std::string>(model, key, source).value_or("").empty(), source, ": has a ",
            key, ", which this program does not know");
  }
  require(!find_value<double>(model, "dropout", source).has_value(), source,
          ": leaves out merges at random (dropout)");
}

void check_bytes(const PieceTable& table, const std::string& source, MergeListModel& model) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string name =
        model.byte_level ? byte_character(static_cast<unsigned char>(byte)) : byte_piece(byte);
    const std::int64_t id = table.find(name);
    require(id >= 0, source, ": no piece '", name, "' for the byte ", byte);
    if (!model.byte_level) {
      model.pieces[static_cast<std::size_t>(id)].type = PieceType::kByte;
    }
  }
}

}  // namespace

MergeListModel merge_list_model(const TokenizerDocument& document, const std::string& source) {
  const Json& json = document.json;
  const auto step = [&](const char* key) { return json.contains(key) ? json.at(key) : Json(); };
  MergeListModel model;
  check_model(document.model(), source);
  model.unk = find_value<std::string>(document.model(), "unk_token", source).value_or("");
  model.ignore_merges = find_value<bool>(document.model(), "ignore_merges", source).value_or(false);
  StepReader reader(source, model);
  reader.read_normalizer(step("normalizer"));
  reader.read_pre_tokenizer(step("pre_tokenizer"));
  reader.read_decoder(step("decoder"));
  reader.read_post_processor(step("post_processor"));
  require(model.byte_level ||
              find_value<bool>(document.model(), "byte_fallback", source).value_or(false),
          source, ": neither byte-level nor with byte_fallback; some text would have no ids");
  PieceTable table(source);
  table.place_all(json);
  model.pieces = table.take();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    require(!model.pieces[id].text.empty(), source, ": piece ", id, " is empty");
  }
  check_bytes(table, source, model);
  read_added(json.at("added_tokens"), source, model);
  read_merges(document.merges, table, source, model);
  return model;
}

}  // namespace darkformer
