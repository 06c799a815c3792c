// The published chat templates, written out; their Jinja is only asked which of them it is.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/chat_format.h"

#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr std::string_view kGemmaStart = "<start_of_turn>";
constexpr std::string_view kGemmaEnd = "<end_of_turn>";

ChatPart piece_part(std::string_view name) {
  return {std::string(name), true};
}

ChatPart text_part(std::string_view text) {
  return {std::string(text), false};
}

void append_part(const ChatPart& part, std::vector<ChatPart>& out) {
  if (!part.is_piece && !out.empty() && !out.back().is_piece) {
    out.back().text += part.text;
  } else if (!part.text.empty()) {
    out.push_back(part);
  }
}

void append_parts(const std::vector<ChatPart>& parts, std::vector<ChatPart>& out) {
  for (const ChatPart& part : parts) {
    append_part(part, out);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kWhite = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kWhite);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kWhite) + 1 - begin);
}

bool is_answer(const ChatTurn& turn) {
  return turn.role == "model" || turn.role == "assistant";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The system prompt that a ChatML template says when nobody else does: literal text between its
// marks. Jinja in between means that it is somebody's turn.
std::string default_chatml_system(std::string_view chat_template) {
  constexpr std::string_view kOpen = "<|im_start|>system";
  constexpr std::string_view kClose = "<|im_end|>";
  for (std::size_t at = chat_template.find(kOpen); at != std::string_view::npos;
       at = chat_template.find(kOpen, at + 1)) {
    std::string_view rest = chat_template.substr(at + kOpen.size());
    const bool escaped = rest.starts_with("\\n");
    if (!escaped && !rest.starts_with("\n")) {
      continue;
    }
    rest.remove_prefix(escaped ? 2 : 1);
    const std::string_view said = rest.substr(0, rest.find(kClose));
    if (!said.empty() && said.size() < rest.size() &&
        said.find_first_of("'\"{}\\") == std::string_view::npos) {
      return std::string(said);
    }
  }
  return {};
}

}  // namespace

ChatFormat::TurnStyle ChatFormat::gemma_style() {
  return {.open = {piece_part(kGemmaStart)},
          .after_role = {text_part("\n")},
          .close = {piece_part(kGemmaEnd), text_part("\n")},
          .model_role = "model",
          .has_system = false};
}

// Large models without thinking expect their thoughts to be over before the answer begins.
ChatFormat::TurnStyle ChatFormat::gemma4_style(const std::string& chat_template) {
  TurnStyle style{.open = {piece_part("<|turn>")},
                  .after_role = {text_part("\n")},
                  .close = {piece_part("<turn|>"), text_part("\n")},
                  .model_role = "model"};
  if (contains(chat_template, "<|channel>thought\\n<channel|>") ||
      contains(chat_template, "<|channel>thought\n<channel|>")) {
    style.answer = {piece_part("<|channel>"), text_part("thought\n"), piece_part("<channel|>")};
  }
  return style;
}

// Llama 3.1 and 3.2 begin with dates, today's being that of their release unless told otherwise.
ChatFormat::TurnStyle ChatFormat::llama3_style(const std::string& chat_template) {
  constexpr const char* kCutoff = "Cutting Knowledge Date: December 2023";
  const bool has_dates = contains(chat_template, kCutoff) && contains(chat_template, "26 Jul 2024");
  return {
      .open = {piece_part("<|start_header_id|>")},
      .after_role = {piece_part("<|end_header_id|>"), text_part("\n\n")},
      .close = {piece_part("<|eot_id|>")},
      .model_role = "assistant",
      .default_system = has_dates ? std::string(kCutoff) + "\nToday Date: 26 Jul 2024\n\n" : ""};
}

ChatFormat::TurnStyle ChatFormat::chatml_style(const std::string& chat_template) {
  return {.open = {piece_part("<|im_start|>")},
          .after_role = {text_part("\n")},
          .close = {piece_part("<|im_end|>"), text_part("\n")},
          .model_role = "assistant",
          .trims = false,
          .default_system = default_chatml_system(chat_template)};
}

ChatFormat::TurnStyle ChatFormat::zephyr_style(const std::string& eos) {
  return {.open = {text_part("<|")},
          .after_role = {text_part("|>\n")},
          .close = {piece_part(eos), text_part("\n")},
          .model_role = "assistant",
          .trims = false};
}

ChatFormat ChatFormat::detect(const HasPiece& has_piece,
                              const std::string& chat_template,
                              const std::string& bos,
                              const std::string& eos,
                              bool byte_level) {
  ChatFormat format;
  format.bos_ = bos;
  format.eos_ = eos;
  const auto use_turns = [&](TurnStyle style) {
    format.family_ = Family::kTurns;
    format.end_of_turn_ = style.close.front().text;
    format.style_ = std::move(style);
  };
  const auto use_instructions = [&](Instructions kind) {
    format.family_ = Family::kInstructions;
    format.instructions_ = kind;
    format.end_of_turn_ = eos;
  };
  if (has_piece(kGemmaStart) || has_piece(kGemmaEnd)) {
    use_turns(gemma_style());
  } else if (has_piece("<|turn>") && has_piece("<turn|>")) {
    use_turns(gemma4_style(chat_template));
  } else if (has_piece("<|start_header_id|>") && has_piece("<|eot_id|>")) {
    use_turns(llama3_style(chat_template));
  } else if (has_piece("<|im_start|>") && has_piece("<|im_end|>")) {
    use_turns(chatml_style(chat_template));
  } else if (has_piece("[INST]") && has_piece("[/INST]")) {
    use_instructions(Instructions::kMistralPieces);
    format.gap_ = byte_level ? "" : " ";
  } else if (contains(chat_template, "[INST]")) {
    use_instructions(contains(chat_template, "<<SYS>>") ? Instructions::kLlama2
                                                        : Instructions::kMistralText);
  } else if (contains(chat_template, "<|user|>") && !has_piece("<|user|>") && !eos.empty()) {
    use_turns(zephyr_style(eos));
  }
  return format;
}

std::vector<ChatPart> ChatFormat::parts(std::span<const ChatTurn> turns) const {
  require(family_ != Family::kNone, "chat: the tokenizer has no pieces for turns (as ", kGemmaStart,
          ") and its folder no chat_template of a known family; leave the chat form");
  std::vector<ChatPart> out;
  if (family_ == Family::kTurns) {
    add_turns(turns, out);
  } else {
    add_instructions(turns, out);
  }
  return out;
}

void ChatFormat::add_turns(std::span<const ChatTurn> turns, std::vector<ChatPart>& out) const {
  append_part(piece_part(bos_), out);
  if (!style_.default_system.empty() && (turns.empty() || turns.front().role != "system")) {
    add_turn({"system", style_.default_system}, out);
  }
  for (const ChatTurn& turn : turns) {
    const bool known =
        turn.role == "user" || is_answer(turn) || (turn.role == "system" && style_.has_system);
    require(known, "chat: role '", printable(turn.role), "' is not known; this model knows ",
            style_.has_system ? "system, " : "", "user and model");
    add_turn({is_answer(turn) ? style_.model_role : turn.role,
              std::string(style_.trims ? trim(turn.text) : turn.text)},
             out);
  }
  append_parts(style_.open, out);
  append_part(text_part(style_.model_role), out);
  append_parts(style_.after_role, out);
  append_parts(style_.answer, out);
}

void ChatFormat::add_turn(const ChatTurn& turn, std::vector<ChatPart>& out) const {
  append_parts(style_.open, out);
  append_part(text_part(turn.role), out);
  append_parts(style_.after_role, out);
  append_part(text_part(turn.text), out);
  append_parts(style_.close, out);
}

// A system turn is said within the first instruction (Llama 2) or the last (Mistral).
void ChatFormat::add_instructions(std::span<const ChatTurn> turns,
                                  std::vector<ChatPart>& out) const {
  std::string system;
  if (!turns.empty() && turns.front().role == "system") {
    system = turns.front().text;
    turns = turns.subspan(1);
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    require((i % 2 == 0) == (turns[i].role == "user") && (i % 2 == 1) == is_answer(turns[i]),
            "chat: turn ", i + 1, " has the role '", printable(turns[i].role),
            "'; this model knows user and model in turn, and one system turn before them");
    if (is_answer(turns[i])) {
      add_answer(turns[i].text, out);
      continue;
    }
    const bool llama = instructions_ == Instructions::kLlama2;
    std::string text;
    if (!system.empty() && llama && i == 0) {
      text.append("<<SYS>>\n").append(trim(system)).append("\n<</SYS>>\n\n");
    } else if (!system.empty() && !llama && i + 1 >= turns.size()) {
      text.append(system).append("\n\n");
    }
    text.append(llama ? trim(turns[i].text) : turns[i].text);
    add_instruction(text, i == 0, out);
  }
}

void ChatFormat::add_instruction(const std::string& text,
                                 bool first,
                                 std::vector<ChatPart>& out) const {
  if (first || instructions_ == Instructions::kLlama2) {
    append_part(piece_part(bos_), out);
  }
  if (instructions_ == Instructions::kMistralPieces) {
    append_parts({piece_part("[INST]"), text_part(gap_ + text), piece_part("[/INST]")}, out);
  } else {
    append_part(text_part("[INST] " + text + " [/INST]"), out);
  }
}

void ChatFormat::add_answer(const std::string& text, std::vector<ChatPart>& out) const {
  switch (instructions_) {
    case Instructions::kLlama2:
      append_part(text_part(" " + std::string(trim(text)) + " "), out);
      break;
    case Instructions::kMistralText:
      append_part(text_part(" " + text), out);
      break;
    case Instructions::kMistralPieces:
      append_part(text_part(gap_ + text), out);
      break;
  }
  append_part(piece_part(eos_), out);
}

}  // namespace darkformer
