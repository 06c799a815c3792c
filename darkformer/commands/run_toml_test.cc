// run.toml: what is written reads back the same; what is wrong is named with its line.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/run_toml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/example_options.h"

namespace darkformer::run_toml_test {
namespace {

class RunToml : public testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    std::ofstream(file) << text;
    ExampleOptions options;
    auto fields = fields_of(options);
    try {
      read_run_toml(file, "sample", fields);
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.rfind(file.string(), 0), 0U) << message;
      return message.substr(file.string().size());
    }
    return "no error";
  }

  ScratchFolder folder;
  std::filesystem::path file = folder.path() / "run.toml";
};

TEST_F(RunToml, ReadsBackWhatItWrote) {
  ExampleOptions before;
  before.model = "/models/a \"b\"\\c";
  before.inputs = {"/x", "/y z"};
  before.prompt = "line\nbreak ü \t'";
  before.features = 65536;
  before.rate = 0.1 + 0.2;
  before.centre = true;
  before.orthogonal = false;
  before.rank = 7;
  before.top_p = 1;
  before.stop = "";
  before.ids = {1, -2};
  before.scales = {1e-300, 3};
  before.layers = {"0-3"};
  write_run_toml(file, "sample", fields_of(before));

  ExampleOptions after;
  auto fields = fields_of(after);
  read_run_toml(file, "sample", fields);
  EXPECT_EQ(run_toml_text("sample", fields_of(after)), run_toml_text("sample", fields_of(before)));
  EXPECT_EQ(after.prompt, before.prompt);
  EXPECT_EQ(after.rate, before.rate);
  EXPECT_EQ(after.model, before.model);
  EXPECT_EQ(after.inputs, before.inputs);
  EXPECT_FALSE(after.orthogonal);
  EXPECT_EQ(after.top_p, 1.0);
  EXPECT_EQ(after.stop, "");
  EXPECT_FALSE(after.against);
  EXPECT_EQ(after.scales, before.scales);
}

TEST_F(RunToml, WritesAbsolutePathsAndWhereItCameFrom) {
  ExampleOptions options;
  options.model = "relative/../model";
  const std::string text = run_toml_text("sample", fields_of(options));
  const auto model = (std::filesystem::current_path() / "model").string();
  EXPECT_NE(text.find(model), std::string::npos) << text;
  for (const char* part : {"command = ", "[options]", "rate = 0.001\n", "[made_by]",
                           "commit = ", "libtorch = ", "cpu = ", "threads = "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST_F(RunToml, GivenFieldsWin) {
  std::ofstream(file) << "features = 3\nkind = 'lfk'\n";
  ExampleOptions options;
  auto fields = fields_of(options);
  for (Field& field : fields) {
    if (field.name == "features") {
      set_from_text(field, {"5"});
    }
  }
  read_run_toml(file, "sample", fields);
  EXPECT_EQ(options.features, 5);
  EXPECT_EQ(options.kind, "lfk");
}

TEST_F(RunToml, NamesTheLineOfAnError) {
  EXPECT_EQ(error_of("a = 1\nfeatures = \n").rfind(":2:12: not valid TOML: ", 0), 0U)
      << error_of("a = 1\nfeatures = \n");
  EXPECT_EQ(error_of("kind = 'dark'\nfeaturs = 3\n"),
            ":2:1: unknown option 'featurs'; did you mean 'features'?");
  EXPECT_EQ(error_of("[options]\nfeatures = 'x'\n"),
            ":2:12: --features: wanted a whole number, got 'x'");
  EXPECT_EQ(error_of("features = [1, 2]\n"), ":1:12: --features: wanted one value, got a list");
  EXPECT_EQ(error_of("features = 0\n"), ":1:12: --features: must be at least 1, got 0");
  EXPECT_EQ(error_of("features = 1979-05-27\n"),
            ":1:12: wanted a text, a number, true or false, or a list of them");
  EXPECT_EQ(error_of("command = 'other'\n"),
            ": written for 'darkformer other', not for 'darkformer sample'");
  EXPECT_THROW(
      {
        std::vector<Field> none;
        read_run_toml(folder.path() / "missing.toml", "sample", none);
      },
      Error);
}

}  // namespace
}  // namespace darkformer::run_toml_test
