// Stages: done once, kept, refused with other options.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/stages.h"

#include <gtest/gtest.h>

#include <sstream>

#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/sample_options.h"

namespace darkformer {
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
  SampleOptions options;
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

TEST_F(StagesTest, AnotherFolderIsLeftAlone) {
  fs::create_directories(folder / "precious");
  EXPECT_THROW(Stages(folder, context()), UsageError);
  EXPECT_FALSE(fs::exists(folder / "run.toml"));
}

}  // namespace
}  // namespace darkformer
