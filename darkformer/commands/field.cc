// Texts to values, checks of values, and how values are called in help.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/field.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "darkformer/base/error.h"
#include "darkformer/base/nearest_name.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

template <class... Parts>
[[noreturn]] void fail_usage(Parts&&... parts) {
  throw UsageError(concat(std::forward<Parts>(parts)...));
}

// The element type of T, optional<T> and vector<T>.
template <class T>
struct Element {
  using Type = T;
  static constexpr bool kList = false;
};
template <class T>
struct Element<std::optional<T>> {
  using Type = T;
  static constexpr bool kList = false;
};
template <class T>
struct Element<std::vector<T>> {
  using Type = T;
  static constexpr bool kList = true;
};

template <class Number>
Number parse_number(const Field& field, const std::string& text, const char* wanted) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::result_out_of_range) {
    fail_usage(field.flag(), ": ", text, " is too large or too small");
  }
  if (code != std::errc{} || stop != end || !std::isfinite(static_cast<double>(value))) {
    fail_usage(field.flag(), ": wanted ", wanted, ", got '", printable(text), "'");
  }
  return value;
}

void parse(const Field& field, const std::string& text, std::int64_t& value) {
  value = parse_number<std::int64_t>(field, text, "a whole number");
}
void parse(const Field& field, const std::string& text, double& value) {
  value = parse_number<double>(field, text, "a number");
}
void parse(const Field&, const std::string& text, std::string& value) {
  value = text;
}
void parse(const Field& field, const std::string& text, fs::path& value) {
  if (text.empty()) {
    fail_usage(field.flag(), ": wanted a file or folder name, got an empty text");
  }
  value = text;
}
void parse(const Field& field, const std::string& text, bool& value) {
  if (text != "true" && text != "false") {
    fail_usage(field.flag(), ": wanted true or false, got '", printable(text), "'");
  }
  value = text == "true";
}

// "1,2,3" -> "1", "2", "3": for numbers only, because names may hold commas.
std::vector<std::string> split_commas(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
      parts.push_back(part);
    }
  }
  return parts;
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(std::int64_t value) {
  return std::to_string(value);
}
std::string text_of(double value) {
  return concat(value);
}
std::string text_of(const std::string& value) {
  return value;
}
std::string text_of(const fs::path& value) {
  return value.string();
}
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "";
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : " ") + text_of(value);
  }
  return text;
}

// Whole numbers without an exponent.
std::string number_text(double value) {
  constexpr double kExact = 1e15;
  return std::abs(value) < kExact && value == std::trunc(value)
             ? std::to_string(static_cast<std::int64_t>(value))
             : concat(value);
}

void check_one(const Field& field, double value) {
  if (field.traits.minimum && value < *field.traits.minimum) {
    fail_usage(field.flag(), ": must be at least ", number_text(*field.traits.minimum), ", got ",
               number_text(value));
  }
  if (field.traits.maximum && value > *field.traits.maximum) {
    fail_usage(field.flag(), ": must be at most ", number_text(*field.traits.maximum), ", got ",
               number_text(value));
  }
}
void check_one(const Field& field, std::int64_t value) {
  check_one(field, static_cast<double>(value));
}
void check_one(const Field& field, const std::string& value) {
  const auto& choices = field.traits.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return;
  }
  std::string list;
  for (const std::string& choice : choices) {
    list += (list.empty() ? "" : ", ") + choice;
  }
  fail_usage(field.flag(), ": '", printable(value), "' is not one of ", list,
             did_you_mean(value, choices));
}
void check_one(const Field&, bool) {}
void check_one(const Field&, const fs::path&) {}
template <class T>
void check_one(const Field& field, const std::optional<T>& value) {
  if (value) {
    check_one(field, *value);
  }
}
template <class T>
void check_one(const Field& field, const std::vector<T>& values) {
  for (const T& value : values) {
    check_one(field, value);
  }
}

template <class Predicate>
bool ask(const FieldValue& value, const Predicate& predicate) {
  return std::visit([&](const auto* pointer) -> bool { return predicate(*pointer); }, value);
}

template <class T>
using ElementOf = typename Element<std::decay_t<T>>::Type;

std::string element_name(const Field& field) {
  if (!field.traits.choices.empty()) {
    return "NAME";
  }
  return std::visit(
      [](const auto* pointer) -> std::string {
        using T = ElementOf<decltype(*pointer)>;
        if constexpr (std::is_same_v<T, fs::path>) {
          return "FILE";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return "TEXT";
        } else if constexpr (std::is_same_v<T, double>) {
          return "X";
        } else {
          return "N";
        }
      },
      field.value);
}

std::string upper(std::string text) {
  for (char& letter : text) {
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  return text;
}

}  // namespace

std::string Field::flag() const {
  return traits.positional ? upper(name) : "--" + name;
}

bool Field::is_flag() const {
  return std::holds_alternative<bool*>(value);
}

bool Field::is_list() const {
  return ask(value, [](const auto& v) { return Element<std::decay_t<decltype(v)>>::kList; });
}

bool Field::is_path() const {
  return ask(value, [](const auto& v) { return std::is_same_v<ElementOf<decltype(v)>, fs::path>; });
}

bool Field::is_empty() const {
  return ask(value, [](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_arithmetic_v<T>) {
      return false;
    } else if constexpr (requires { v.has_value(); }) {
      return !v.has_value();
    } else {
      return v.empty();
    }
  });
}

std::string Field::value_name() const {
  const std::string single = !traits.value_name.empty()
                                 ? traits.value_name
                                 : (traits.positional ? upper(name) : element_name(*this));
  return is_list() ? single + "..." : single;
}

std::string Field::default_text() const {
  return std::visit([](const auto* pointer) { return text_of(*pointer); }, value);
}

void set_from_text(Field& field, const std::vector<std::string>& texts) {
  std::visit(
      [&](auto* pointer) {
        using T = std::decay_t<decltype(*pointer)>;
        using One = typename Element<T>::Type;
        if constexpr (Element<T>::kList) {
          const auto parts = std::is_arithmetic_v<One> ? split_commas(texts) : texts;
          T values(parts.size());
          for (std::size_t i = 0; i < parts.size(); ++i) {
            parse(field, parts[i], values[i]);
          }
          *pointer = std::move(values);
        } else {
          One one{};
          parse(field, texts.at(0), one);
          *pointer = std::move(one);
        }
      },
      field.value);
  check_value(field);
  field.given = true;
}

void check_value(const Field& field) {
  std::visit([&](const auto* pointer) { check_one(field, *pointer); }, field.value);
}

void check_required(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    if (field.traits.required && !field.given) {
      fail_usage(field.flag(), " is missing: ", field.help, field.traits.advice.empty() ? "" : "; ",
                 field.traits.advice);
    }
  }
}

std::vector<std::string> flag_names(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) {
    if (!field.traits.positional) {
      names.push_back(field.flag());
    }
    if (field.is_flag() && field.default_text() == "true") {
      names.push_back("--no-" + field.name);
    }
  }
  return names;
}

}  // namespace darkformer
