// Stages: done once, kept, refused with other options.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/stages.h"

#include <gtest/gtest.h>

#include <sstream>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/content_key.h"
#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/example_options.h"

namespace darkformer::stages_test {
namespace {

namespace fs = std::filesystem;

class StagesTest : public testing::Test {
 protected:
  Context context() {
    fields = fields_of(options);
    for (const Field& field : fields_of(common)) {
      fields.push_back(field);
    }
    return {common, out, "sample", fields};
  }

  ScratchFolder scratch;
  fs::path folder = scratch.path() / "out";
  ExampleOptions options;
  CommonOptions common;
  std::vector<Field> fields;
  std::ostringstream out;
};

TEST_F(StagesTest, AFinishedStageIsNotDoneAgain) {
  int calls = 0;
  const auto work = [&] { return OrderedJson{{"calls", ++calls}}; };
  {
    const Context here = context();
    const Stages stages(folder, here);
    EXPECT_EQ(stages.run("one", work)["calls"], 1);
  }
  const Context here = context();
  const Stages again(folder, here);
  EXPECT_EQ(again.run("one", work)["calls"], 1);
  EXPECT_EQ(again.run("two", work)["calls"], 2);
}

TEST_F(StagesTest, AStageThatFailsLeavesNothing) {
  const Context here = context();
  const Stages stages(folder, here);
  EXPECT_THROW(stages.run("one", []() -> OrderedJson { fail("broken"); }), Error);
  EXPECT_EQ(stages.run("one", [] { return OrderedJson{{"x", 1}}; })["x"], 1);
}

TEST_F(StagesTest, AStopSaysHowToGoOn) {
  const Context here = context();
  const Stages stages(folder, here);
  try {
    stages.run("one", []() -> OrderedJson { throw Interrupted("go on with: another command"); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Interrupted& stop) {
    EXPECT_EQ(std::string(stop.what()), "stopped during one; the same command goes on from there");
  }
  EXPECT_FALSE(fs::exists(folder / "stages" / "one.json"));
}

TEST_F(StagesTest, OtherOptionsAreRefusedByName) {
  {
    const Context here = context();
    const Stages stages(folder, here);
  }
  common.threads = 3;  // of no matter
  { const Stages again(folder, context()); }
  options.features = 77;
  options.rank = 5;
  try {
    const Stages other(folder, context());
    ADD_FAILURE() << "other options went on";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("features = 256, now 77"), std::string::npos) << text;
    EXPECT_NE(text.find("rank = not given, now 5"), std::string::npos) << text;
  }
}

TEST_F(StagesTest, OptionsMayChangeUntilTheirStageIsDone) {
  const std::map<std::string, std::string> first_read = {{"features", "two"}};
  {
    const Context here = context();
    const Stages stages(folder, here, first_read);
    stages.run("one", [] { return OrderedJson{{"x", 1}}; });
  }
  options.features = 77;
  {
    const Context here = context();
    const Stages stages(folder, here, first_read);
    stages.run("two", [] { return OrderedJson{{"x", 2}}; });
  }
  { const Stages same(folder, context(), first_read); }  // what was changed is kept
  options.features = 78;
  EXPECT_THROW(Stages(folder, context(), first_read), UsageError);
}

TEST_F(StagesTest, ChangedInputsAreRefusedByName) {
  const fs::path text = scratch.path() / "text", weights = scratch.path() / "weights";
  write_file_atomically(text, "one");
  write_file_atomically(weights, "w");
  const auto keep = [&] {
    Stages(folder, context())
        .keep_inputs({{"--data", content_key({text})}, {"MODEL", content_key({weights})}});
  };
  keep();
  keep();
  write_file_atomically(text, "two");
  try {
    keep();
    ADD_FAILURE() << "another text went on";
  } catch (const UsageError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("--data has changed since this was begun"), std::string::npos) << said;
  }
  write_file_atomically(text, "one");
  keep();
}

TEST_F(StagesTest, OneProcessAtATime) {
  const Context here = context();
  const Stages first(folder, here);
  EXPECT_THROW(Stages(folder, here), Error);
}

TEST_F(StagesTest, ABrokenResultIsNamed) {
  const Context here = context();
  const Stages stages(folder, here);
  const auto work = [] { return OrderedJson{{"x", 1}}; };
  stages.run("one", work);
  write_file_atomically(folder / "stages" / "one.json", "{\"x\"");
  try {
    stages.run("one", work);
    ADD_FAILURE() << "a broken result was taken";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("one.json"), std::string::npos) << said;
    EXPECT_NE(said.find("without this file the stage is done again"), std::string::npos) << said;
  }
}

TEST_F(StagesTest, AnotherFolderIsLeftAlone) {
  fs::create_directories(folder / "precious");
  EXPECT_THROW(Stages(folder, context()), UsageError);
  EXPECT_FALSE(fs::exists(folder / "run.toml"));
}

}  // namespace
}  // namespace darkformer::stages_test
