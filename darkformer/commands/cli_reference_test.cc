// docs/cli.md, the manual page and the completion script name every command, flag and choice.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/cli_reference.h"

#include <gtest/gtest.h>

#include "darkformer/commands/bash_completion.h"
#include "darkformer/commands/example_options.h"
#include "darkformer/commands/man_page.h"

namespace darkformer::cli_reference_test {
namespace {

std::vector<Command> example_commands(ExampleOptions& options) {
  std::vector<Command> commands(2);
  commands[0].text.name = "sample";
  commands[0].text.summary = "Show | all";
  commands[0].text.example = "darkformer sample m";
  commands[0].fields = fields_of(options);
  commands[1].text.name = "secret";
  commands[1].text.hidden = true;
  return commands;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(CliReference, ListsCommandsFlagsAndDefaults) {
  ExampleOptions options;
  const std::string text = cli_reference(example_commands(options));
  expect_parts(text,
               {"| [`sample`](#sample) | Show \\| all |", "| `MODEL` | model folder (required) |",
                "| `-F, --features N` | random features (default: 256) |",
                "| `--orthogonal, --no-orthogonal` | orthogonal draws (default: yes) |",
                "| `--kind NAME` | attention: exact, dark, lfk (default: dark) |",
                "| `INPUTS...` | text files |", "| `--threads N` |", "darkformer sample m\n"});
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(ManPage, ListsCommandsFlagsAndDefaults) {
  ExampleOptions options;
  std::vector<Command> commands = example_commands(options);
  commands[0].text.example = "darkformer sample m \\\n.hidden 'x'";
  const std::string text = man_page(commands, "1.2");
  expect_parts(text, {".TH DARKFORMER 1 \"\" \"darkformer 1.2\"", ".SS sample\nShow | all.\n",
                      ".TP\n\\fB\\-F, \\-\\-features N\\fR\nrandom features (default: 256)\n",
                      ".TP\n\\fB\\-\\-threads N\\fR\n", "sample m \\e\n\\&.hidden 'x'\n.fi\n"});
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST(BashCompletion, ListsCommandsFlagsAndChoices) {
  ExampleOptions options;
  const std::string text = bash_completion(example_commands(options));
  expect_parts(text, {"'sample --help --version'", "--features|-F)", "'exact dark lfk'",
                      "--out) _darkformer_files", "--no-orthogonal", "complete -F _darkformer"});
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace darkformer::cli_reference_test
