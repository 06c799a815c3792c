// Mapping: the bytes, moves, and files that cannot be mapped.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/mapped_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/unprivileged.h"

namespace darkformer::mapped_file_test {
namespace {

std::string error_of(const std::filesystem::path& path) {
  try {
    const MappedFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MappedFile, ShowsTheBytesAndMoves) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a";
  std::ofstream(path) << "hello";
  MappedFile first(path);
  EXPECT_EQ(first.text(), "hello");
  const std::byte* data = first.data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.data(), data);
  std::ofstream(folder.path() / "b") << "other";
  MappedFile third(folder.path() / "b");
  third = std::move(second);
  EXPECT_EQ(third.text(), "hello");
  EXPECT_EQ(third.path(), path);
}

TEST(MappedFile, EmptyFileIsNoBytes) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "empty").flush();
  const MappedFile file(folder.path() / "empty");
  EXPECT_EQ(file.size(), 0U);
  EXPECT_TRUE(file.text().empty());
}

TEST(MappedFile, ErrorsNameFileAndReason) {
  const ScratchFolder folder;
  EXPECT_NE(error_of(folder.path() / "none").find("none: cannot be opened: No such file"),
            std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of("/dev/zero").find("not a regular file"), std::string::npos);
  std::ofstream(folder.path() / "locked") << "x";
  std::filesystem::permissions(folder.path() / "locked", std::filesystem::perms::none);
  const Unprivileged unprivileged;
  EXPECT_NE(error_of(folder.path() / "locked").find("Permission denied"), std::string::npos);
}

TEST(Printable, StaysOnOneLine) {
  EXPECT_EQ(printable("a\nb\x7F\xC3\xA9"), "a\\x0Ab\\x7F\xC3\xA9");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("\x93\xC3(\xE2\x82"), "\\x93\\xC3(\\xE2\\x82");
  EXPECT_EQ(printable("\xE2\x82\xAC"), "\xE2\x82\xAC");
}

}  // namespace
}  // namespace darkformer::mapped_file_test
