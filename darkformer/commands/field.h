// One option of a command as data: parsing, help, run.toml, docs/cli.md and completion all walk
// these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace darkformer {

// Where the value lives and of which type it is.
using FieldValue = std::variant<bool*,
                                std::int64_t*,
                                double*,
                                std::string*,
                                std::filesystem::path*,
                                std::optional<std::int64_t>*,
                                std::optional<double>*,
                                std::optional<std::string>*,
                                std::optional<std::filesystem::path>*,
                                std::vector<std::int64_t>*,
                                std::vector<double>*,
                                std::vector<std::string>*,
                                std::vector<std::filesystem::path>*>;

// What another value means to a run that --resume goes on with.
enum class OnResume {
  kTold,   // it is taken, and said
  kFree,   // it is taken: about the machine or the book-keeping, the results stay the same
  kFixed,  // an error: the checkpoint has the value of the start
  kStart,  // only the start reads it: said where there is a checkpoint to go on from
};

struct FieldTraits {
  bool positional = false;      // a plain argument: MODEL, not --model
  bool required = false;        // must come from the command line or the --config file
  char letter = 0;              // also "-n"
  std::string value_name = {};  // what help calls the value; default by type: FILE, N, ...
  std::vector<std::string> choices = {};  // the only allowed texts
  std::optional<double> minimum = {};     // of a number, or of each number of a list
  std::optional<double> maximum = {};
  std::string advice = {};       // what to do without a required value, for its error
  std::string empty_means = {};  // what help says of an unset value: "all layers"
  bool momentary = false;        // about this call only: run.toml does not keep it
  OnResume on_resume = OnResume::kTold;
};

struct Field {
  std::string name;  // "max-tokens": the flag --max-tokens and the key of run.toml
  FieldValue value;
  std::string help;
  FieldTraits traits = {};
  bool given = false;  // set by the user, on the command line or in a config file

  std::string flag() const;  // "--max-tokens", or "MODEL" for a positional
  bool is_flag() const;      // a bool: takes no value
  bool is_list() const;
  bool is_path() const;
  bool is_empty() const;             // an unset optional, an empty text or list
  std::string value_name() const;    // "N"; "FILE..." for lists
  std::string default_text() const;  // the present value as help shows it; "" when empty
};

// The visitor: an options struct lists its members once, in `void visit(auto&& field)`:
//   field("max-tokens", max_tokens, "stop after this many tokens", {.minimum = 1});
class FieldList {
 public:
  template <class Value>
  void operator()(std::string name, Value& value, std::string help, FieldTraits traits = {}) {
    fields_.push_back({std::move(name), &value, std::move(help), std::move(traits)});
  }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

template <class Options>
std::vector<Field> fields_of(Options& options) {
  FieldList list;
  options.visit(list);
  return list.take();
}

// Sets the value from texts (one, or any number for a list, whose texts may hold commas between
// numbers). Throws UsageError that names the flag, what was wanted and what was got.
void set_from_text(Field& field, const std::vector<std::string>& texts);

// Throws UsageError when a value is not among the choices or out of its range.
void check_value(const Field& field);

// The first required field that was not given: UsageError.
void check_required(const std::vector<Field>& fields);

// All "--name" texts of the fields (and "--no-name" of flags that are on), positionals left out.
std::vector<std::string> flag_names(const std::vector<Field>& fields);

}  // namespace darkformer
