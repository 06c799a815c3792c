// Atomic files and folders: whole or absent, also when the disk is full or a writer dies.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"

namespace darkformer::atomic_file_test {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

void put(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

// No file of this process may grow beyond `bytes`: what a full disk looks like to a writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(AtomicFile, ReplacesOnCommitOnly) {
  const ScratchFolder folder;
  const auto file = folder.path() / "deep" / "a.txt";
  write_file_atomically(file, "old");
  {
    AtomicFile writer(file);
    writer.write("new and longer");
    EXPECT_EQ(writer.written(), 14U);
    EXPECT_EQ(content(file), "old");
    writer.commit();
    EXPECT_EQ(content(file), "new and longer");
    EXPECT_THROW(writer.write("late"), Error);
  }
  EXPECT_EQ(entries(file.parent_path()), 1U);
}

TEST(AtomicFile, OverwritesWhatWasWritten) {
  const ScratchFolder folder;
  AtomicFile file(folder.path() / "a");
  file.write("????body");
  file.overwrite(0, "head", 4);
  file.write(" end");
  EXPECT_EQ(file.written(), 12U);
  file.commit();
  EXPECT_EQ(content(folder.path() / "a"), "headbody end");
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const ScratchFolder folder;
  const auto file = folder.path() / "a.txt";
  write_file_atomically(file, "old");
  { AtomicFile(file).write("lost"); }
  EXPECT_EQ(content(file), "old");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicFile, FullDiskKeepsTheOldFileAndNamesTheReason) {
  const ScratchFolder folder;
  const auto file = folder.path() / "model.bin";
  write_file_atomically(file, "old");
  std::string message;
  {
    const FileSizeLimit limit(4096);
    try {
      AtomicFile writer(file);
      writer.write(std::string(100000, 'x'));
      writer.commit();
    } catch (const Error& error) {
      message = error.what();
    }
  }
  EXPECT_EQ(message, file.string() + ": cannot be written: File too large");
  EXPECT_EQ(content(file), "old");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicFile, TakesOverWhatADeadWriterLeft) {
  const ScratchFolder folder;
  const auto file = folder.path() / "a.txt";
  put(folder.path() / ".a.txt.partial", "half of something longer than the new text");
  write_file_atomically(file, "whole");
  EXPECT_EQ(content(file), "whole");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicFile, TwoWritersAtOnceAreAnError) {
  const ScratchFolder folder;
  const auto file = folder.path() / "a.txt";
  AtomicFile first(file);
  first.write("first");
  EXPECT_THROW(AtomicFile second(file), BusyError);
  first.commit();
  EXPECT_EQ(content(file), "first");
}

TEST(AtomicFile, BadNamesAreErrors) {
  const ScratchFolder folder;
  EXPECT_THROW(AtomicFile{folder.path()}, Error);
  EXPECT_THROW(AtomicFile{""}, Error);
  EXPECT_THROW(AtomicFile{folder.path() / ".."}, Error);
  put(folder.path() / "plain", "");
  EXPECT_THROW(AtomicFile{folder.path() / "plain" / "a.txt"}, Error);
}

// A rename would replace /dev/null by a plain file, for everybody.
TEST(AtomicFile, DevicesAndPipesStay) {
  const ScratchFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, folder.path() / "link");
  EXPECT_THROW(AtomicFile{pipe}, Error);
  EXPECT_THROW(AtomicFile{folder.path() / "link"}, Error);
  EXPECT_THROW(AtomicFile{"/dev/null"}, Error);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(folder.path()), 2U);
}

TEST(AtomicFile, ALinkUnderThePartialNameIsNotFollowed) {
  const ScratchFolder folder;
  put(folder.path() / "other", "kept");
  fs::create_symlink(folder.path() / "other", folder.path() / ".a.txt.partial");
  EXPECT_THROW(AtomicFile{folder.path() / "a.txt"}, Error);
  EXPECT_EQ(content(folder.path() / "other"), "kept");
}

// Many processes write the same name again and again; every read sees one whole version.
TEST(AtomicFile, ReadersSeeWholeVersionsOnly) {
  const ScratchFolder folder;
  const auto file = folder.path() / "a.txt";
  write_file_atomically(file, std::string(50000, 'a'));
  std::vector<pid_t> children;
  for (const char letter : {'b', 'c', 'd'}) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 30; ++i) {
        try {
          write_file_atomically(file, std::string(50000, letter));
        } catch (const Error&) {  // another writer holds it: as promised
        }
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (int i = 0; i < 300; ++i) {
    const std::string text = content(file);
    ASSERT_EQ(text.size(), 50000U);
    ASSERT_EQ(text, std::string(50000, text[0]));
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicDirectory, AppearsWhole) {
  const ScratchFolder folder;
  const auto target = folder.path() / "step-1";
  {
    AtomicDirectory writer(target);
    put(writer.path() / "a", "1");
    fs::create_directory(writer.path() / "sub");
    put(writer.path() / "sub" / "b", "2");
    EXPECT_FALSE(fs::exists(target));
    writer.commit();
  }
  EXPECT_EQ(content(target / "a"), "1");
  EXPECT_EQ(content(target / "sub" / "b"), "2");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicDirectory, ReplacesAnOldFolderAsAWhole) {
  const ScratchFolder folder;
  const auto target = folder.path() / "model";
  fs::create_directory(target);
  put(target / "old", "old");
  AtomicDirectory writer(target / "");
  put(writer.path() / "new", "new");
  writer.commit();
  EXPECT_FALSE(fs::exists(target / "old"));
  EXPECT_EQ(content(target / "new"), "new");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicDirectory, WithoutCommitNothingChanges) {
  const ScratchFolder folder;
  const auto target = folder.path() / "model";
  fs::create_directory(target);
  put(target / "old", "old");
  {
    AtomicDirectory writer(target);
    put(writer.path() / "new", "new");
    EXPECT_THROW(AtomicDirectory second(target), Error);
  }
  EXPECT_EQ(content(target / "old"), "old");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicDirectory, TakesOverWhatADeadWriterLeft) {
  const ScratchFolder folder;
  fs::create_directory(folder.path() / ".model.partial");
  put(folder.path() / ".model.partial" / "junk", "junk");
  AtomicDirectory writer(folder.path() / "model");
  writer.commit();
  EXPECT_TRUE(fs::is_empty(folder.path() / "model"));
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(AtomicDirectory, FollowsLinks) {
  const ScratchFolder folder;
  fs::create_directory(folder.path() / "real");
  fs::create_directory_symlink(folder.path() / "real", folder.path() / "link");
  AtomicDirectory writer(folder.path() / "link");
  put(writer.path() / "new", "new");
  writer.commit();
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(content(folder.path() / "real" / "new"), "new");
}

TEST(AtomicDirectory, ALinkUnderThePartialNameIsNotFollowed) {
  const ScratchFolder folder;
  fs::create_directory(folder.path() / "other");
  put(folder.path() / "other" / "file", "kept");
  fs::create_directory_symlink(folder.path() / "other", folder.path() / ".model.partial");
  EXPECT_THROW(AtomicDirectory{folder.path() / "model"}, Error);
  EXPECT_EQ(content(folder.path() / "other" / "file"), "kept");
}

TEST(AtomicDirectory, AFileInTheWayIsAnError) {
  const ScratchFolder folder;
  put(folder.path() / "model", "file");
  EXPECT_THROW(AtomicDirectory{folder.path() / "model"}, Error);
}

}  // namespace
}  // namespace darkformer::atomic_file_test
