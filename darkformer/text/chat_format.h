// Turns of a conversation as each family of models has learned to read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace darkformer {

struct ChatTurn {
  std::string role;  // "user", "model" (or "assistant"), and "system" where the family has it
  std::string text;
};

// A stretch of what the model reads: a control piece by its name, or ordinary text.
struct ChatPart {
  std::string text;
  bool is_piece = false;
};

// Which form a model expects; found by the tokenizer's pieces, and by its chat_template where those
// are the same with and without chat (Llama 2, Mistral 7B, TinyLlama).
class ChatFormat {
 public:
  // Has the tokenizer a piece of this name?
  using HasPiece = std::function<bool(std::string_view)>;

  ChatFormat() = default;  // none
  // `bos` and `eos` are names of pieces, empty where there are none; `chat_template` is Jinja, or
  // empty. `byte_level`: is it a byte-level vocabulary?
  static ChatFormat detect(const HasPiece& has_piece,
                           const std::string& chat_template,
                           const std::string& bos,
                           const std::string& eos,
                           bool byte_level);

  // What the model reads, ready for its answer; texts next to each other are one. Error: no form is
  // known, a role that the family does not have, turns in an order that it has not learned.
  std::vector<ChatPart> parts(std::span<const ChatTurn> turns) const;
  // The name of the piece that ends an answer; empty: none.
  const std::string& end_of_turn() const { return end_of_turn_; }

 private:
  enum class Family { kNone, kTurns, kInstructions };
  enum class Instructions { kLlama2, kMistralText, kMistralPieces };

  // A turn is: open, role, after_role, text, close. An answer begins behind `answer`.
  struct TurnStyle {
    std::vector<ChatPart> open = {};
    std::vector<ChatPart> after_role = {};
    std::vector<ChatPart> close = {};
    std::vector<ChatPart> answer = {};
    std::string model_role = {};
    bool has_system = true;
    bool trims = true;
    std::string default_system = {};  // said where the turns have no system turn; empty: nothing
  };

  static TurnStyle gemma_style();
  static TurnStyle gemma4_style(const std::string& chat_template);
  static TurnStyle llama3_style(const std::string& chat_template);
  static TurnStyle chatml_style(const std::string& chat_template);
  static TurnStyle zephyr_style(const std::string& eos);

  void add_turns(std::span<const ChatTurn> turns, std::vector<ChatPart>& out) const;
  void add_turn(const ChatTurn& turn, std::vector<ChatPart>& out) const;
  void add_instructions(std::span<const ChatTurn> turns, std::vector<ChatPart>& out) const;
  void add_instruction(const std::string& text, bool first, std::vector<ChatPart>& out) const;
  void add_answer(const std::string& text, std::vector<ChatPart>& out) const;

  Family family_ = Family::kNone;
  TurnStyle style_;
  Instructions instructions_ = Instructions::kLlama2;
  std::string gap_;  // kMistralPieces: what stands between a piece and the text
  std::string bos_;
  std::string eos_;
  std::string end_of_turn_;
};

}  // namespace darkformer
