// Model folders: one file, shards, and indices that lie.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/weight_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/unprivileged.h"

namespace darkformer::weight_files_test {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

// n tensors t0 ... with i + 1 bytes of the letter 'a' + i.
std::vector<TensorSource> letters(int count) {
  std::vector<TensorSource> sources;
  for (int i = 0; i < count; ++i) {
    const std::string content(i + 1, static_cast<char>('a' + i));
    sources.push_back({"t" + std::to_string(i), DType::kU8, {i + 1}, [content] {
                         return std::as_bytes(std::span(content));
                       }});
  }
  return sources;
}

void expect_letters(const WeightFiles& files, int count) {
  ASSERT_EQ(files.tensors().size(), static_cast<std::size_t>(count));
  std::uint64_t total = 0;
  for (int i = 0; i < count; ++i) {
    const TensorView* tensor = files.find("t" + std::to_string(i));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data), tensor->bytes),
              std::string(i + 1, static_cast<char>('a' + i)));
    total += tensor->bytes;
  }
  EXPECT_EQ(files.bytes(), total);
}

std::string error_of(const std::filesystem::path& folder) {
  try {
    const WeightFiles files(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(WeightFiles, OneFile) {
  const ScratchFolder folder;
  write_weights(folder.path(), letters(5));
  const WeightFiles files(folder.path());
  expect_letters(files, 5);
  EXPECT_EQ(files.find("nothing"), nullptr);
  EXPECT_EQ(files.file_of("t1"), (folder.path() / "model.safetensors").string());
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"model.safetensors"});
}

TEST(WeightFiles, ShardsWithTheirIndex) {
  const ScratchFolder folder;
  write_weights(folder.path(), letters(5), 6);  // 1 + 2 + 3, 4, 5
  EXPECT_EQ(
      names_in(folder.path()),
      (std::set<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                             "model-00003-of-00003.safetensors", kIndex}));
  const WeightFiles files(folder.path());
  expect_letters(files, 5);
  EXPECT_EQ(files.file_of("t3"), (folder.path() / "model-00002-of-00003.safetensors").string());
  const Json index = read_json(folder.path() / kIndex);
  EXPECT_EQ(index["metadata"]["total_size"], 15);
  EXPECT_EQ(index["weight_map"]["t4"], "model-00003-of-00003.safetensors");
}

TEST(WeightFiles, ATensorLargerThanAShardGetsItsOwn) {
  const ScratchFolder folder;
  write_weights(folder.path(), letters(4), 1);
  expect_letters(WeightFiles(folder.path()), 4);
  EXPECT_EQ(names_in(folder.path()).size(), 5U);
}

TEST(WeightFiles, WritingAgainLeavesNoStaleFiles) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "tokenizer.model") << "kept";
  write_weights(folder.path(), letters(5), 6);
  write_weights(folder.path(), letters(4), 4);
  expect_letters(WeightFiles(folder.path()), 4);
  write_weights(folder.path(), letters(3));
  expect_letters(WeightFiles(folder.path()), 3);
  EXPECT_EQ(names_in(folder.path()),
            (std::set<std::string>{"model.safetensors", "tokenizer.model"}));
  write_weights(folder.path(), letters(4), 4);
  expect_letters(WeightFiles(folder.path()), 4);
}

TEST(WeightFiles, FoldersWithoutWeights) {
  const ScratchFolder folder;
  EXPECT_NE(error_of(folder.path()).find("no model.safetensors and no model.safetensors.index"),
            std::string::npos);
  EXPECT_NE(error_of(folder.path() / "none").find("none"), std::string::npos);
}

TEST(WeightFiles, LockedFilesAndFoldersAreErrors) {
  const ScratchFolder folder;
  write_weights(folder.path(), letters(2));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  for (const auto& locked : {folder.path() / "model.safetensors", folder.path()}) {
    std::filesystem::permissions(locked, std::filesystem::perms::none);
    const Unprivileged unprivileged;
    EXPECT_NE(error_of(folder.path()).find("Permission denied"), std::string::npos);
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
}

class BrokenIndex : public testing::Test {
 protected:
  BrokenIndex() { write_weights(folder_.path(), letters(5), 6); }

  void expect_error(const std::string& reason) const {
    const std::string message = error_of(folder_.path());
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(folder_.path().string())) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  void write_index(const std::string& text) const {
    std::ofstream(folder_.path() / kIndex) << text;
  }
  void change_index(const std::function<void(Json&)>& change) const {
    Json index = read_json(folder_.path() / kIndex);
    change(index["weight_map"]);
    write_index(index.dump());
  }

  ScratchFolder folder_;
};

TEST_F(BrokenIndex, MissingShard) {
  std::filesystem::remove(folder_.path() / "model-00002-of-00003.safetensors");
  expect_error("model-00002-of-00003.safetensors: cannot be opened: No such file");
}

TEST_F(BrokenIndex, PathsOutOfTheFolder) {
  for (const std::string name :
       {"../model.safetensors", "/etc/passwd", "..", ".", "", "a/b", "a\\b"}) {
    change_index([&](Json& map) { map["t1"] = name; });
    expect_error("tensor 't1' is said to be in");
  }
  change_index([&](Json& map) { map["t1"] = 7; });
  expect_error("which is no file of this folder");
}

TEST_F(BrokenIndex, TensorsThatAreNotThere) {
  change_index([](Json& map) { map["t9"] = "model-00001-of-00003.safetensors"; });
  expect_error("model-00001-of-00003.safetensors: has no tensor 't9'");
}

TEST_F(BrokenIndex, TensorsThatItDoesNotName) {
  change_index([](Json& map) { map.erase("t1"); });
  expect_error(
      "model-00001-of-00003.safetensors: has tensor 't1', which model.safetensors.index.json does "
      "not name");
}

TEST_F(BrokenIndex, TensorsInAnotherShard) {
  change_index([](Json& map) { map["t0"] = "model-00002-of-00003.safetensors"; });
  expect_error("model-00002-of-00003.safetensors: has no tensor 't0'");
}

TEST_F(BrokenIndex, TensorsInTwoShards) {
  write_safetensors(folder_.path() / "model-00002-of-00003.safetensors", letters(4));
  expect_error("tensor 't0' is also in");
}

TEST_F(BrokenIndex, NotJson) {
  write_index("{\"weight_map\": {");
  expect_error("not valid JSON");
  write_index("");
  expect_error("not valid JSON");
  write_index("{}");
  expect_error("\"weight_map\" is missing");
  write_index("{\"weight_map\": {}}");
  expect_error("\"weight_map\" is empty");
  write_index("[]");
  expect_error("\"weight_map\" is missing");
}

}  // namespace
}  // namespace darkformer::weight_files_test
