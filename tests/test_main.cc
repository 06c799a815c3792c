// The main function of every test program: GoogleTest's, and --file=NAME for the tests of one source file.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

// "Suite.Test:" for each test that NAME.cc defines; GoogleTest knows where each comes from.
std::string filter_of_file(std::string_view name) {
  std::string filter;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *tests.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).stem() == name) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFile)) {
      std::fprintf(stderr, "%s: unknown argument %s; --file=NAME, or --gtest_...\n", argv[0],
                   argv[i]);
      return 2;
    }
    const std::string filter = filter_of_file(argument.substr(kFile.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "%s: no test comes from a file %s.cc\n", argv[0],
                   argv[i] + kFile.size());
      return 2;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
