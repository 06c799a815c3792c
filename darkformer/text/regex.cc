// PCRE2 behind a small door; hostile patterns end in an Error.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::size_t kLongestPattern = 8192;  // Published ones have up to 500 characters.
constexpr std::uint32_t kDeepestParentheses = 50;
constexpr std::size_t kJitStackStart = std::size_t{32} << 10;
constexpr std::size_t kJitStackMost = std::size_t{1} << 20;
// A search of a run of n characters may go back n times for each of a pattern's alternatives.
constexpr std::uint64_t kStepsAtLeast = 1'000'000;
constexpr std::uint64_t kStepsPerByte = 32;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Rewrites a pattern of Oniguruma for PCRE2. \s there is White_Space, here it has U+180E as well;
// \w there has marks and connectors, here they depend on the version.
class PatternTranslation {
 public:
  PatternTranslation(std::string_view pattern, const std::string& source)
      : pattern_(pattern), source_(source) {}

  std::string run() {
    for (std::size_t at = 0; at < pattern_.size(); ++at) {
      if (pattern_[at] == '\\') {
        require(at + 1 < pattern_.size(), source_, ": ", name(), " ends in a backslash");
        escape(pattern_[++at]);
        continue;
      }
      bracket(at);
      out_ += pattern_[at];
    }
    return std::move(out_);
  }

 private:
  std::string name() const { return "the pattern '" + printable(pattern_) + "'"; }

  void escape(char letter) {
    constexpr std::string_view kRefused = "hHRXKGZCQEyYOgk";
    constexpr const char* kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    require(kRefused.find(letter) == std::string_view::npos, source_, ": ", name(), " uses \\",
            letter, ", which this program does not read as Hugging Face does");
    if (letter == 's' || letter == 'S') {
      out_ += letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
    } else if (letter == 'w') {
      out_ += in_class_ ? std::string(kWord) : "[" + std::string(kWord) + "]";
    } else if (letter == 'W') {
      require(!in_class_, source_, ": ", name(), " has \\W in brackets; write [^...]");
      out_ += "[^" + std::string(kWord) + "]";
    } else {
      out_ += '\\';
      out_ += letter;
    }
  }

  void bracket(std::size_t at) {
    const char letter = pattern_[at];
    if (!in_class_ && letter == '[') {
      in_class_ = true;
      first_in_class_ = at + (pattern_.substr(at + 1).starts_with('^') ? 2 : 1);
    } else if (in_class_ && letter == ']' && at > first_in_class_) {
      in_class_ = false;
    } else if (in_class_) {
      require(letter != '[' && !pattern_.substr(at).starts_with("&&"), source_, ": ", name(),
              " has brackets inside brackets or &&, which this program does not read");
    }
  }

  std::string_view pattern_;
  const std::string& source_;
  std::string out_;
  bool in_class_ = false;
  std::size_t first_in_class_ = 0;
};

struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeJitStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code;
  std::string name;  // for errors: where the pattern stands and what it is
};

Regex::Regex(const std::string& pattern, const std::string& source) {
  require(pattern.size() <= kLongestPattern, source, ": a pattern has ", pattern.size(),
          " bytes; at most ", kLongestPattern, " are read");
  require(is_utf8(pattern), source, ": a pattern is not UTF-8");
  const std::string translated = PatternTranslation(pattern, source).run();
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kDeepestParentheses);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, context.get());
  require(code != nullptr, source, ": the pattern '", printable(pattern),
          "' cannot be read: ", pcre2_message(error));
  const auto owner = std::make_shared<Code>(code);
  owner->name = source + ": the pattern '" + printable(pattern) + "'";
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // Where there is none, the interpreter does it.
  code_ = owner;
}

struct RegexSearch::State {
  std::shared_ptr<const Regex::Code> code;
  std::unique_ptr<pcre2_match_data, FreeMatchData> data;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeJitStack> stack;
  std::size_t limited_to = 0;  // the size of text that the limit on steps was set for

  // PCRE2's answer from `from` on: 1 with a match, 0 without, -1 where the limit on steps is hit.
  int match(std::string_view text, std::size_t from, std::uint32_t options) const {
    return pcre2_match(code->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, data.get(), context.get());
  }
};

RegexSearch::RegexSearch(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.code_;
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr));
  require(state_->data && state_->context, "out of memory for a pattern's search");
  if (state_->stack) {
    pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
  }
}

RegexSearch::RegexSearch(RegexSearch&&) noexcept = default;
RegexSearch::~RegexSearch() = default;

bool RegexSearch::find(std::string_view text, std::size_t from, RegexMatch& match) {
  if (text.size() > state_->limited_to) {
    const std::uint64_t steps = std::max(kStepsAtLeast, kStepsPerByte * text.size());
    pcre2_set_match_limit(state_->context.get(),
                          static_cast<std::uint32_t>(std::min<std::uint64_t>(
                              steps, std::numeric_limits<std::uint32_t>::max())));
    state_->limited_to = text.size();
  }
  int result = state_->match(text, from, 0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = state_->match(text, from, PCRE2_NO_JIT);
  }
  if (result == PCRE2_ERROR_NOMATCH) {
    return false;
  }
  require(result >= 0, state_->code->name, " cannot be searched for: ", pcre2_message(result));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state_->data.get());
  match = {range[0], range[1]};
  return true;
}

}  // namespace darkformer
