// Reading and writing JSON files.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/json.h"

#include <algorithm>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/printable.h"
#include "darkformer/base/read_file.h"

namespace darkformer {
namespace {

// The library's text is "[json.exception...] parse error at line 2, column 3: syntax error while
// parsing value - unexpected ...": keep what comes after the position, but not megabytes of it (it
// quotes the token it was reading).
std::string reason(const std::string& message) {
  constexpr std::size_t kLongest = 200;
  const std::size_t at = message.find("column");
  const std::size_t colon = message.find(": ", at == std::string::npos ? 0 : at);
  return printable(std::string_view(message).substr(colon == std::string::npos ? 0 : colon + 2),
                   kLongest);
}

// A file of opening brackets would grow to fifty times its size in memory.
void check_depth(std::string_view text, const std::string& source) {
  constexpr int kDeepest = 256;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_string) {
      i += character == '\\' ? 1 : 0;
      in_string = character != '"';
    } else if (character == '"') {
      in_string = true;
    } else if (character == '[' || character == '{') {
      require(++depth <= kDeepest, source, ": not valid JSON here: nested deeper than ", kDeepest);
    } else if (character == ']' || character == '}') {
      --depth;
    }
  }
}

template <class AnyJson>
AnyJson parse(std::string_view text,
              const std::string& source,
              std::size_t first_line,
              const typename AnyJson::parser_callback_t& keep = nullptr) {
  check_depth(text, source);
  try {
    return AnyJson::parse(text, keep);
  } catch (const nlohmann::json::parse_error& error) {
    const auto before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    const auto newlines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    const std::size_t start = before.find_last_of('\n');
    const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1);
    fail(source, ":", first_line + newlines, ":", column + 1,
         ": not valid JSON: ", reason(error.what()));
  } catch (const nlohmann::json::exception& error) {  // a number too large for a double
    fail(source, ": not valid JSON: ", reason(error.what()));
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source, std::size_t first_line) {
  return parse<Json>(text, source, first_line);
}

Json parse_filtered_json(std::string_view text,
                         const std::string& source,
                         const Json::parser_callback_t& keep) {
  return parse<Json>(text, source, 1, keep);
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& source) {
  return parse<OrderedJson>(text, source, 1);
}

Json read_json(const std::filesystem::path& file) {
  return parse_json(read_file(file), file.string());
}

OrderedJson read_ordered_json(const std::filesystem::path& file) {
  return parse_ordered_json(read_file(file), file.string());
}

void write_json(const std::filesystem::path& file, const OrderedJson& value) {
  write_file_atomically(file, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

namespace json_detail {

void fail_type(const std::string& source,
               std::string_view key,
               std::string_view wanted,
               std::string_view got) {
  fail(source, ": \"", key, "\" must be ", wanted, ", but it is of type ", got);
}

void fail_missing(const std::string& source, std::string_view key) {
  fail(source, ": \"", key, "\" is missing");
}

}  // namespace json_detail
}  // namespace darkformer
