// Plain, gzip and zstd files: whole, in several members, cut short, corrupt, wrongly named.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/byte_source.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "darkformer/base/philox.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"

namespace darkformer::byte_source_test {
namespace {

std::string read_all(const std::filesystem::path& path, std::size_t step = 1 << 16) {
  const auto source = open_bytes(path);
  std::string all;
  std::string buffer(step, '\0');
  while (const std::size_t got = source->read(buffer.data(), step)) {
    all += buffer.substr(0, got);
  }
  EXPECT_EQ(source->read(buffer.data(), step), 0U) << "stays at the end";
  EXPECT_EQ(source->stored_bytes_used(), std::filesystem::file_size(path));
  return all;
}

// Not compressible below some size, so that packed files are longer than the read buffer.
std::string letters(std::size_t size) {
  const Philox random(1);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>('a' + random.bits(i) % 26);
  }
  return text;
}

struct PackedFile {
  std::string name, bytes;
};
std::vector<PackedFile> packed_both_ways(const std::string& text) {
  return {{"a.gz", gzip(text)}, {"a.zst", zstd(text)}};
}

class ByteSourceTest : public testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& bytes) const {
    write_bytes(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  ScratchFolder folder_;
};

TEST_F(ByteSourceTest, EverySizeOfEveryKind) {
  for (const std::size_t size : {0, 1, 3, 4, 100, 65536, 700001}) {
    const std::string text = letters(size);
    EXPECT_EQ(read_all(put("a.txt", text)), text);
    EXPECT_EQ(read_all(put("a.txt.gz", gzip(text))), text);
    EXPECT_EQ(read_all(put("a.txt.zst", zstd(text))), text);
  }
}

TEST_F(ByteSourceTest, SmallReads) {
  const std::string text = letters(5000);
  for (const std::size_t step : {1, 7, 4999, 5000, 5001}) {
    EXPECT_EQ(read_all(put("a.txt", text), step), text);
    EXPECT_EQ(read_all(put("a.gz", gzip(text)), step), text);
    EXPECT_EQ(read_all(put("a.zst", zstd(text)), step), text);
  }
}

TEST_F(ByteSourceTest, HighlyPackedData) {
  const std::string text(5000000, 'x');
  EXPECT_EQ(read_all(put("a.gz", gzip(text)), 1000), text);
  EXPECT_EQ(read_all(put("a.zst", zstd(text)), 1000), text);
}

TEST_F(ByteSourceTest, SeveralMembersAndFrames) {
  EXPECT_EQ(read_all(put("a.gz", gzip("one ") + gzip("") + gzip("two"))), "one two");
  EXPECT_EQ(read_all(put("a.zst", zstd("one ") + zstd("") + zstd("two"))), "one two");
  EXPECT_EQ(read_all(put("b.gz", gzip("padded") + std::string(1000, '\0'))), "padded");
  const std::string skippable(
      "\x50\x2a\x4d\x18\x03\x00\x00\x00"
      "abc",
      11);
  EXPECT_EQ(read_all(put("b.zst", skippable + zstd("after"))), "after");
}

TEST_F(ByteSourceTest, FirstBytesDecideNotTheName) {
  EXPECT_EQ(read_all(put("packed.txt", gzip("text"))), "text");
  EXPECT_EQ(read_all(put("packed.jsonl", zstd("text"))), "text");
  EXPECT_EQ(read_all(put("wrong.gz", zstd("text"))), "text");
}

TEST_F(ByteSourceTest, WrongNamesAndMissingFiles) {
  EXPECT_TRUE(
      contains(error_of([&] { read_all(put("a.gz", "plain")); }), "a.gz: named .gz but its"));
  EXPECT_TRUE(
      contains(error_of([&] { read_all(put("a.zst", "")); }), "a.zst: named .zst but is empty"));
  EXPECT_TRUE(contains(error_of([&] { open_bytes(folder_.path() / "none.txt"); }),
                       "none.txt: cannot open: No such file"));
  EXPECT_TRUE(contains(error_of([&] { open_bytes(folder_.path()); }), "is a folder"));
}

TEST_F(ByteSourceTest, CutShortAtEveryByte) {
  const std::string text = letters(400);
  for (const PackedFile& file : packed_both_ways(text)) {
    for (std::size_t size = 4; size < file.bytes.size(); ++size) {
      EXPECT_TRUE(contains(error_of([&] { read_all(put(file.name, file.bytes.substr(0, size))); }),
                           "cut short"))
          << file.name << " of " << size << " bytes";
    }
  }
}

TEST_F(ByteSourceTest, CutShortInALargeFile) {
  const std::string text = letters(2000000);
  for (const PackedFile& file : packed_both_ways(text)) {
    EXPECT_TRUE(contains(
        error_of([&] { read_all(put(file.name, file.bytes.substr(0, file.bytes.size() / 2))); }),
        "cut short"));
    EXPECT_TRUE(contains(
        error_of([&] { read_all(put(file.name, file.bytes.substr(0, file.bytes.size() - 1))); }),
        "cut short"));
    EXPECT_TRUE(contains(
        error_of([&] { read_all(put(file.name, file.bytes + file.bytes.substr(0, 100000))); }),
        "cut short"));
  }
}

TEST_F(ByteSourceTest, AFlippedByteIsFound) {
  const std::string text = letters(2000);
  for (const PackedFile& file : packed_both_ways(text)) {
    for (std::size_t i = 30; i < file.bytes.size(); i += 7) {
      std::string packed = file.bytes;
      packed[i] ^= 0x10;
      const std::string message = error_of([&] { read_all(put(file.name, packed)); });
      EXPECT_TRUE(contains(message, "corrupt") || contains(message, "cut short"))
          << file.name << " byte " << i;
      EXPECT_TRUE(contains(message, file.name));
    }
  }
}

// A zstd frame of a text whose length was not known, as `zstd --long=31` packs it: it asks for two
// gigabytes of memory.
std::string zstd_long(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue);
  while (ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) != 0) {
  }
  ZSTD_freeCCtx(context);
  packed.resize(out.pos);
  packed[5] = '\xa8';  // the window: 2 to the power 31
  return packed;
}

// Found by a fuzzer.
TEST_F(ByteSourceTest, OnlyLargeFilesMayAskForMuchMemory) {
  EXPECT_TRUE(contains(error_of([&] { read_all(put("a.zst", zstd_long(letters(2000)))); }),
                       "a.zst: zstd: asks for more than 128 MiB of memory"));
  const std::string large = letters(2000000);
  EXPECT_EQ(read_all(put("b.zst", zstd_long(large))), large);
}

TEST_F(ByteSourceTest, GarbageAfterTheEnd) {
  EXPECT_TRUE(contains(error_of([&] { read_all(put("a.gz", gzip("text") + "garbage!")); }),
                       "corrupt gzip"));
  EXPECT_TRUE(contains(error_of([&] { read_all(put("a.zst", zstd("text") + "garbage!")); }),
                       "corrupt zstd"));
}

}  // namespace
}  // namespace darkformer::byte_source_test
