// The program as a function: exit codes, one line of error, results on standard output alone.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "darkformer/commands/command.h"

namespace darkformer::program_test {
namespace {

struct Outcome {
  int code;
  std::string out;
  std::string errors;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int code = run_program(arguments, out, errors);
  return {code, out.str(), errors.str()};
}

TEST(Program, AnswersWithCodeZeroAndNoErrors) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"--version"}, {"completion", "bash"}, {"completion", "--help"}, {"docs"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, kExitDone) << arguments[0];
    EXPECT_EQ(outcome.errors, "");
    EXPECT_NE(outcome.out, "");
  }
}

TEST(Program, UsageErrorsAreOneLineAndCodeTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"nonsense"},
                                             {"completion", "bash", "--nonsense"},
                                             {"completion", "fish"},
                                             {"completion", "bash", "--quiet", "--verbose"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_EQ(outcome.errors.rfind("darkformer", 0), 0U);
  }
}

TEST(Program, AClosedOutputIsAFailure) {
  std::ostringstream out;
  std::ostringstream errors;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(run_program({"docs"}, out, errors), kExitFailed);
  EXPECT_EQ(errors.str(), "darkformer docs: standard output: cannot be written (closed or full)\n");
}

TEST(Program, EveryCommandIsWellFormed) {
  std::set<std::string> names;
  CommonOptions common;
  for (const Command& command : all_commands()) {
    EXPECT_TRUE(names.insert(command.text.name).second) << command.text.name << " exists twice";
    EXPECT_NE(command.text.example.find("darkformer " + command.text.name), std::string::npos)
        << command.text.name;
    EXPECT_NE(command.text.summary.back(), '.') << command.text.name;
    EXPECT_TRUE(static_cast<bool>(command.run));
    std::set<std::string> flags = {"config", "help"};
    for (const Field& field : fields_of(common)) {
      flags.insert(field.name);
    }
    for (const Field& field : command.fields) {
      EXPECT_TRUE(flags.insert(field.name).second) << command.text.name << ": " << field.name;
      EXPECT_NE(field.help, "") << command.text.name << ": " << field.name;
    }
    EXPECT_EQ(run({command.text.name, "--help"}).code, kExitDone);
  }
}

}  // namespace
}  // namespace darkformer::program_test
