// JSON values, and files of them with errors that name the file, the line and the key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "darkformer/base/error.h"

namespace darkformer {

// Json sorts its keys and finds them fast (vocabularies of 10^5 entries). OrderedJson keeps them as
// they came, for files people read; its look-up is linear.
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// `source` names the text in errors, `first_line` is where in it the text starts:
// "config.json:3:14: not valid JSON: ...".
Json parse_json(std::string_view text, const std::string& source, std::size_t first_line = 1);
OrderedJson parse_ordered_json(std::string_view text, const std::string& source);
// As parse_json, and `keep` sees every value, key, start and end as it is read: false leaves it out
// of the result; what it throws ends the parse. For large or hostile files.
Json parse_filtered_json(std::string_view text,
                         const std::string& source,
                         const Json::parser_callback_t& keep);
Json read_json(const std::filesystem::path& file);
OrderedJson read_ordered_json(const std::filesystem::path& file);

// Two spaces of indentation and a final newline; replaces the file atomically. Non-finite numbers
// become null (JSON has no name for them), broken UTF-8 becomes U+FFFD.
void write_json(const std::filesystem::path& file, const OrderedJson& value);

namespace json_detail {
[[noreturn]] void fail_type(const std::string& source,
                            std::string_view key,
                            std::string_view wanted,
                            std::string_view got);
[[noreturn]] void fail_missing(const std::string& source, std::string_view key);

template <class Value>
constexpr std::string_view wanted() {
  if constexpr (std::is_same_v<Value, bool>) {
    return "true or false";
  } else if constexpr (std::is_integral_v<Value>) {
    return "a whole number";
  } else if constexpr (std::is_floating_point_v<Value>) {
    return "a number";
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return "a string";
  } else {
    return "another type";
  }
}

template <class Value, class AnyJson>
bool holds(const AnyJson& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_integral_v<Value>) {
    return value.is_number_integer();
  } else if constexpr (std::is_floating_point_v<Value>) {
    return value.is_number();
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return value.is_string();
  } else {
    return true;
  }
}
}  // namespace json_detail

// object[key] as Value, or nothing when the key is missing or null; another type is an Error.
template <class Value, class AnyJson>
std::optional<Value> find_value(const AnyJson& object,
                                const std::string& key,
                                const std::string& source) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    return std::nullopt;
  }
  if (!json_detail::holds<Value>(*found)) {
    json_detail::fail_type(source, key, json_detail::wanted<Value>(), found->type_name());
  }
  try {
    return found->template get<Value>();
  } catch (const nlohmann::json::exception&) {
    json_detail::fail_type(source, key, json_detail::wanted<Value>(), found->type_name());
  }
}

// object[key] as Value; a missing key is an Error.
template <class Value, class AnyJson>
Value get_value(const AnyJson& object, const std::string& key, const std::string& source) {
  auto found = find_value<Value>(object, key, source);
  if (!found) {
    json_detail::fail_missing(source, key);
  }
  return *std::move(found);
}

}  // namespace darkformer
