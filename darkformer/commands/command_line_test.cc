// Command lines: every type of field, every way to be wrong.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/command_line.h"

#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/example_options.h"

namespace darkformer::command_line_test {
namespace {

// One command "sample" and what parsing it made of its options.
class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    commands.emplace_back();
    commands[0].text.name = "sample";
    commands[0].text.summary = "Show everything";
    commands[0].text.example = "darkformer sample m --out d\ndarkformer sample n --out e";
    commands[0].text.details = "Some more words.";
    commands[0].text.config = true;
    commands[0].fields = fields_of(options);
    common_fields = fields_of(common);
  }

  Invocation parse(const std::vector<std::string>& arguments) {
    for (Field& field : commands[0].fields) {
      field.given = false;
    }
    return parse_command_line(arguments, commands, common_fields);
  }
  // Without the parts that are always required.
  void parse_rest(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"sample", "m", "--out", "d"});
    parse(arguments);
  }
  std::string error_of(const std::vector<std::string>& arguments) {
    try {
      parse(arguments);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string error_of_rest(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"sample", "m", "--out", "d"});
    return error_of(arguments);
  }

  ExampleOptions options;
  CommonOptions common;
  std::vector<Command> commands;
  std::vector<Field> common_fields;
};

TEST_F(CommandLine, SetsEveryType) {
  const Invocation invocation =
      parse({"sample",   "model",      "a.txt",    "b.txt",     "--out",
             "dir",      "--kind=lfk", "--prompt", "-1 --json", "-F",
             "8",        "--rate",     "2e-4",     "--centre",  "--no-orthogonal",
             "--rank",   "4",          "--top-p",  "0.5",       "--stop",
             "",         "--against",  "base",     "--ids",     "1,2,-3",
             "--ids",    "4",          "--scales", "1",         "2.5",
             "--layers", "0-3",        "7",        "--threads", "2",
             "--seed",   "9",          "--json"});
  EXPECT_EQ(invocation.answer, "");
  EXPECT_EQ(invocation.command, &commands[0]);
  EXPECT_EQ(options.model, "model");
  EXPECT_EQ(options.inputs, (std::vector<std::filesystem::path>{"a.txt", "b.txt"}));
  EXPECT_EQ(options.out, "dir");
  EXPECT_EQ(options.kind, "lfk");
  EXPECT_EQ(options.prompt, "-1 --json");
  EXPECT_EQ(options.features, 8);
  EXPECT_EQ(options.rate, 2e-4);
  EXPECT_TRUE(options.centre);
  EXPECT_FALSE(options.orthogonal);
  EXPECT_EQ(options.rank, 4);
  EXPECT_EQ(options.top_p, 0.5);
  EXPECT_EQ(options.stop, "");
  EXPECT_EQ(options.against, "base");
  EXPECT_EQ(options.ids, (std::vector<std::int64_t>{1, 2, -3, 4}));
  EXPECT_EQ(options.scales, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(options.layers, (std::vector<std::string>{"0-3", "7"}));
  EXPECT_EQ(common.threads, 2);
  EXPECT_EQ(common.seed, 9);
  EXPECT_TRUE(common.json);
}

TEST_F(CommandLine, KeepsDefaults) {
  parse_rest({});
  EXPECT_EQ(options.features, 256);
  EXPECT_TRUE(options.orthogonal);
  EXPECT_FALSE(options.rank);
  EXPECT_TRUE(options.ids.empty());
  EXPECT_EQ(common.seed, 1);
  EXPECT_FALSE(common.json);
}

TEST_F(CommandLine, NegativeNumbersAreValues) {
  parse_rest({"--ids", "-5", "--scales", "-0.5"});
  EXPECT_EQ(options.ids, (std::vector<std::int64_t>{-5}));
  EXPECT_EQ(options.scales, (std::vector<double>{-0.5}));
}

TEST_F(CommandLine, NamesWhatIsMissing) {
  EXPECT_EQ(error_of({}), "a command is missing; see 'darkformer --help'");
  EXPECT_EQ(error_of({"sample", "--out", "d"}), "MODEL is missing: model folder");
  EXPECT_EQ(error_of({"sample", "m"}), "--out is missing: folder to write");
  EXPECT_EQ(error_of_rest({"--rank"}), "--rank needs a value");
  EXPECT_EQ(error_of_rest({"--rank", "--json"}),
            "--rank needs a value (N), but the flag --json follows it");
  EXPECT_EQ(error_of_rest({"--prompt="}),
            "--prompt= has no value; for an empty text write --prompt ''");
}

TEST_F(CommandLine, OffersTheNearestName) {
  EXPECT_EQ(error_of({"smaple"}), "unknown command 'smaple'; did you mean 'sample'?");
  EXPECT_EQ(error_of({"zzz"}), "unknown command 'zzz'; see 'darkformer --help'");
  EXPECT_EQ(error_of({"--versoin"}),
            "unknown option '--versoin' before the command; did you mean '--version'?");
  EXPECT_EQ(error_of_rest({"--featrues", "3"}),
            "unknown option '--featrues'; did you mean '--features'?");
  EXPECT_EQ(error_of_rest({"--no-ortogonal"}),
            "unknown option '--no-ortogonal'; did you mean '--no-orthogonal'?");
  EXPECT_EQ(error_of_rest({"-x"}), "unknown option '-x'; see 'darkformer sample --help'");
  EXPECT_EQ(error_of_rest({"--kind", "drak"}),
            "--kind: 'drak' is not one of exact, dark, lfk; did you mean 'dark'?");
}

TEST_F(CommandLine, RefusesWrongValues) {
  EXPECT_EQ(error_of_rest({"--features", "many"}), "--features: wanted a whole number, got 'many'");
  EXPECT_EQ(error_of_rest({"--features", "1.5"}), "--features: wanted a whole number, got '1.5'");
  EXPECT_EQ(error_of_rest({"--features", "0"}), "--features: must be at least 1, got 0");
  EXPECT_EQ(error_of_rest({"--features", "99999999999999999999"}),
            "--features: 99999999999999999999 is too large or too small");
  EXPECT_EQ(error_of_rest({"--top-p", "1.5"}), "--top-p: must be at most 1, got 1.5");
  EXPECT_EQ(error_of_rest({"--rate", "nan"}), "--rate: wanted a number, got 'nan'");
  EXPECT_EQ(error_of_rest({"--rate", ""}), "--rate: wanted a number, got ''");
  EXPECT_EQ(error_of_rest({"--against", ""}),
            "--against: wanted a file or folder name, got an empty text");
  EXPECT_EQ(error_of_rest({"--ids", "1,x"}), "--ids: wanted a whole number, got 'x'");
  EXPECT_EQ(error_of_rest({"--centre=maybe"}), "--centre: wanted true or false, got 'maybe'");
  EXPECT_EQ(error_of_rest({"--rate", "1", "--rate", "2"}), "--rate was given more than once");
}

TEST_F(CommandLine, HelpShowsUsageDefaultsAndExamples) {
  const std::string help = parse({"sample", "--help"}).answer;
  for (const char* part :
       {"Show everything.", "Usage: darkformer sample MODEL [INPUTS...] --out DIR [options]",
        "-F,--features N", "random features (default: 256)",
        "attention: exact, dark, lfk (default: dark)", "--no-orthogonal",
        "rank of the factor (default: the head size)", "--config FILE", "Options of every command",
        "--threads N", "Some more words.",
        "Example:\n  darkformer sample m --out d\n  darkformer sample n --out e"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
  EXPECT_NE(parse({"--help"}).answer.find("sample"), std::string::npos);
  EXPECT_EQ(parse({"help"}).answer, parse({"--help"}).answer);
  EXPECT_EQ(parse({"help", "sample"}).answer, help);
  EXPECT_NE(parse({"-h"}).answer.find("Show everything"), std::string::npos);
  EXPECT_NE(parse({"--version"}).answer.find("oneDNN"), std::string::npos);
}

TEST_F(CommandLine, ConfigFileFillsWhatTheCommandLineLeaves) {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.toml";
  std::ofstream(file) << "model = 'from file'\nout = 'd'\nfeatures = 32\nrate = 1\nseed = 5\n"
                         "centre = true\nids = [1, 2]\nkind = 'exact'\n";
  parse({"sample", "--config", file.string(), "--features", "64"});
  EXPECT_EQ(options.model, "from file");
  EXPECT_EQ(options.features, 64);
  EXPECT_EQ(options.rate, 1.0);
  EXPECT_TRUE(options.centre);
  EXPECT_EQ(options.ids, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(options.kind, "exact");
  EXPECT_EQ(common.seed, 5);
}

}  // namespace
}  // namespace darkformer::command_line_test
