// JSON lines: appended whole, read back, half lines cut.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/jsonl.h"

#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/scratch_folder.h"

namespace darkformer::jsonl_test {
namespace {

TEST(Jsonl, LinesAreReadableWhileTheWriterIsOpen) {
  const ScratchFolder folder;
  const auto file = folder.path() / "run" / "log.jsonl";
  JsonlWriter writer(file);
  writer.write({{"step", 1}, {"loss", 2.5}});
  writer.write({{"step", 2}, {"text", "two\nlines"}});
  const auto lines = read_jsonl(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["loss"], 2.5);
  EXPECT_EQ(lines[1]["text"], "two\nlines");
}

TEST(Jsonl, AppendCutsAHalfWrittenLine) {
  const ScratchFolder folder;
  const auto file = folder.path() / "log.jsonl";
  std::ofstream(file) << "{\"step\":1}\n{\"step\":2,\"lo";
  EXPECT_EQ(read_jsonl(file).size(), 1U);
  JsonlWriter(file, JsonlWriter::Mode::kAppend).write({{"step", 3}});
  const auto lines = read_jsonl(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1]["step"], 3);
}

TEST(Jsonl, ReplaceStartsAnew) {
  const ScratchFolder folder;
  const auto file = folder.path() / "log.jsonl";
  JsonlWriter(file).write({{"step", 1}});
  JsonlWriter(file).write({{"step", 9}});
  ASSERT_EQ(read_jsonl(file).size(), 1U);
  EXPECT_EQ(read_jsonl(file)[0]["step"], 9);
}

TEST(Jsonl, ABrokenLineIsNamed) {
  const ScratchFolder folder;
  const auto file = folder.path() / "log.jsonl";
  std::ofstream(file) << "{}\n{oops}\n{}\n";
  try {
    read_jsonl(file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("log.jsonl:2:2: not valid JSON"), std::string::npos)
        << error.what();
  }
}

TEST(Jsonl, AFullDiskIsAnError) {
  JsonlWriter writer("/dev/full", JsonlWriter::Mode::kReplace);
  EXPECT_THROW(writer.write({{"step", 1}}), Error);
}

}  // namespace
}  // namespace darkformer::jsonl_test
