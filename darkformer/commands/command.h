// A command of the program: its options, its help and the function that does the work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/base/progress.h"
#include "darkformer/commands/field.h"

namespace darkformer {

// What every command understands.
struct CommonOptions {
  std::int64_t threads = 0;
  std::int64_t seed = 1;
  bool json = false;
  bool verbose = false;
  bool quiet = false;

  void visit(auto&& field) {
    field("threads", threads, "threads to use; 0: all",
          {.minimum = 0, .empty_means = "all", .on_resume = OnResume::kFree});
    field("seed", seed, "where every random number of the command starts",
          {.minimum = 0, .on_resume = OnResume::kFixed});
    field("json", json, "for machines: the result as one JSON object on the last line, no progress",
          {.momentary = true});
    field("verbose", verbose, "say more on standard error", {.momentary = true});
    field("quiet", quiet, "say nothing on standard error but warnings and errors",
          {.momentary = true});
  }
};

// What a running command may use. Results go to `out` (standard output) and nothing else does;
// remarks go through base/log, long loops show a Progress and poll interrupted().
struct Context {
  const CommonOptions& common;
  std::ostream& out;
  std::string command;               // its name
  const std::vector<Field>& fields;  // its resolved options, the common ones last

  // One JSON object on a line of its own: the last thing a command prints under --json.
  void print_json(const OrderedJson& object) const;
  // A progress display in the style the user asked for (bar, lines or silent).
  Progress progress(std::string label, std::int64_t total, std::string unit = "steps") const;
  // Throws Interrupted with the message when Ctrl-C or SIGTERM has come.
  void stop_if_interrupted(const std::string& message) const;
  // All options as they are, with version, commit and machine, where `--config` can read them.
  void write_run_toml(const std::filesystem::path& file) const;
  // For results files: the command as typed, with the options that were given, and all options with
  // version and commit.
  std::string command_line() const;
  OrderedJson settings() const;
};

struct CommandText {
  std::string name;
  std::string summary;       // one line, a verb first: "Show what a model folder holds"
  std::string example;       // whole command lines
  std::string details = {};  // a paragraph for --help and docs/cli.md
  bool hidden = false;       // not in the list of commands
  bool config = false;       // takes --config FILE.toml: any option may come from a file
};

struct Command {
  CommandText text;
  std::vector<Field> fields;
  std::function<void(Context&)> run;
};

// A command from its options struct and its function.
template <class Options>
Command make_command(CommandText text, void (*run)(const Options&, Context&)) {
  auto options = std::make_shared<Options>();
  auto fields = fields_of(*options);
  return {std::move(text), std::move(fields),
          [options, run](Context& context) { run(*options, context); }};
}

// Every command of the program, in the order of help.
std::vector<Command> all_commands();

}  // namespace darkformer
