// Reading, writing and every way a file can be wrong.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"

namespace darkformer::safetensors_test {
namespace {

std::string with_length(const std::string& header, std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(length >> (8 * i) & 0xFF);
  }
  return bytes + header;
}

std::string file_bytes(const std::string& header, const std::string& data) {
  return with_length(header, header.size()) + data;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    const auto path = folder_.path() / "x.safetensors";
    std::filesystem::remove(path);  // overwriting would wait for the disk
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // The message that opening these bytes ends in; always one line that begins with the file.
  std::string error_of(const std::string& bytes) const {
    const auto path = write(bytes);
    try {
      const SafetensorsFile file(path);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with(path.string())) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "no error";
  }
  // As error_of, for a header and 12 bytes of data.
  std::string header_error(const std::string& header) const {
    return error_of(file_bytes(header, std::string(12, 'x')));
  }
  void expect_error(const std::string& header, const std::string& reason) const {
    const std::string message = header_error(header);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  ScratchFolder folder_;
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_F(SafetensorsTest, ReadsNamesTypesShapesAndBytes) {
  const std::string header =
      R"({"b":)" + entry("U8", "[4]", "[8,12]") + R"(,"a":)" + entry("F32", "[2,1]", "[0,8]") +
      R"(,"__metadata__":{"format":"pt"},"none":)" + entry("I64", "[0,7]", "[8,8]") + "}   ";
  const SafetensorsFile file(write(file_bytes(header, "ABCDEFGHabcd")));
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[2].name, "b");
  const TensorView* a = file.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a->data), a->bytes), "ABCDEFGH");
  EXPECT_EQ(file.find("none")->bytes, 0U);
  EXPECT_EQ(file.find("missing"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(SafetensorsTest, ReadsScalarsAndFilesWithoutTensors) {
  const SafetensorsFile scalar(
      write(file_bytes(R"({"s":)" + entry("F64", "[]", "[0,8]") + "}", std::string(8, 'x'))));
  EXPECT_TRUE(scalar.find("s")->shape.empty());
  EXPECT_TRUE(SafetensorsFile(write(file_bytes("{}", ""))).tensors().empty());
}

TEST_F(SafetensorsTest, SaysWhenDataIsNotAligned) {
  const std::string odd = R"({"s":)" + entry("F64", "[1]", "[0,8]") + "}";
  for (std::size_t pad = 0; pad < 8; ++pad) {
    const std::string header = odd + std::string(pad, ' ');
    const SafetensorsFile file(write(file_bytes(header, std::string(8, 'x'))));
    EXPECT_EQ(is_aligned(*file.find("s")), header.size() % 8 == 0);
  }
}

TEST_F(SafetensorsTest, FilesCutShort) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("abc").find("cut short"), std::string::npos);
  const std::string good =
      file_bytes(R"({"a":)" + entry("U8", "[12]", "[0,12]") + "}", "abcdefghijkl");
  ASSERT_EQ(error_of(good), "no error");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(error_of(good.substr(0, size)), "no error") << size;
  }
  const std::string message = error_of(good.substr(0, good.size() - 1));
  EXPECT_NE(message.find("tensor 'a'"), std::string::npos) << message;
  EXPECT_NE(message.find("cut short"), std::string::npos) << message;
  EXPECT_NE(error_of(good + "x").find("1 byte after the last tensor"), std::string::npos);
}

TEST_F(SafetensorsTest, HeadersOfAbsurdLength) {
  const std::string header = R"({"a":)" + entry("U8", "[12]", "[0,12]") + "}";
  for (const std::uint64_t length :
       {std::uint64_t{100'000'001}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_NE(error_of(with_length(header, length)).find("not a safetensors file"),
              std::string::npos);
  }
  EXPECT_NE(error_of(with_length(header, 90'000'000)).find("cut short"), std::string::npos);
  EXPECT_NE(error_of(with_length(header, 0)).find("no JSON object"), std::string::npos);
}

TEST_F(SafetensorsTest, HeadersThatAreNotTheFormats) {
  expect_error("[1,2,3]", "no JSON object");
  expect_error(" {}", "no JSON object");
  expect_error("{\"a\": }", "not valid JSON");
  expect_error("{\"a\":1}", "tensor 'a': its entry in the header is no object");
  expect_error("{\"a\":" + std::string(100000, '[') + "}", "nested deeper");
  expect_error("{\"a\xFF\":1}", "not valid JSON");
  expect_error(R"({"__metadata__":3})", "__metadata__ is no object");
  expect_error(R"({"__metadata__":{"a":3}})", "__metadata__ 'a' is no string");
  const std::string a = entry("U8", "[12]", "[0,12]");
  expect_error(R"({"a":)" + a + R"(,"a":)" + a + "}", "\"a\" is in the header twice");
  expect_error(R"({"a":{"dtype":"U8","dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
               "\"dtype\" is in the header twice");
}

TEST_F(SafetensorsTest, WrongTypesAndShapes) {
  const auto a = [](const std::string& dtype, const std::string& shape) {
    return R"({"a":)" + entry(dtype, shape, "[0,12]") + "}";
  };
  expect_error(a("FLOAT", "[3]"), "tensor 'a': unknown dtype FLOAT");
  expect_error(R"({"a":{"dtype":7,"shape":[3],"data_offsets":[0,12]}})", "dtype is no string");
  expect_error(R"({"a":{"dtype":"F32","data_offsets":[0,12]}})", "tensor 'a': no shape");
  expect_error(R"({"a":{"dtype":"F32","shape":[3]}})", "tensor 'a': no data_offsets");
  expect_error(R"({"a":{"shape":[3],"data_offsets":[0,12]}})", "tensor 'a': no dtype");
  expect_error(a("F32", "3"), "shape is no list");
  expect_error(a("F32", "[-3]"), "shape holds -3");
  expect_error(a("F32", "[3.0]"), "shape holds 3.0");
  expect_error(a("F32", "[\"3\"]"), "shape holds");
  expect_error(a("F32", "[99999999999999999999999]"), "shape holds");
  expect_error(a("F32", "[4]"), "F32 of shape [4] needs 16 bytes, the file gives it 12");
  expect_error(a("BF16", "[3]"), "needs 6 bytes");
  expect_error(a("F32", "[4294967296,4294967296,3]"), "absurd shape");
  expect_error(a("U8", "[9223372036854775807,9223372036854775807,0]"), "absurd shape");
  expect_error(a("U8", "[9223372036854775807,2,0]"), "absurd shape");
  expect_error(a("F4", "[23]"), "absurd shape");  // eleven bytes and a half
  EXPECT_EQ(header_error(a("F4", "[24]")), "no error");
  EXPECT_EQ(header_error(a("F6_E2M3", "[16]")), "no error");
}

TEST_F(SafetensorsTest, OffsetsOutOfPlace) {
  const auto a = [](const std::string& offsets) {
    return R"({"a":)" + entry("U8", "[12]", offsets) + "}";
  };
  expect_error(a("[0,13]"), "tensor 'a': its bytes [0, 13) are not within the 12 bytes");
  expect_error(a("[12,0]"), "are not within");
  expect_error(a("[18446744073709551615,11]"), "are not within");
  expect_error(a("[0,18446744073709551615]"), "are not within");
  expect_error(a("[-1,11]"), "two whole numbers");
  expect_error(a("[0]"), "two whole numbers");
  expect_error(a("[0,6,12]"), "two whole numbers");
  expect_error(a("{}"), "two whole numbers");
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":)" + first + R"(,"b":)" + second + "}";
  };
  expect_error(two(entry("U8", "[8]", "[0,8]"), entry("U8", "[6]", "[6,12]")),
               "tensor 'b' overlaps the one before it");
  expect_error(two(entry("U8", "[4]", "[0,4]"), entry("U8", "[4]", "[8,12]")),
               "tensor 'b' leaves a hole before it");
  expect_error(two(entry("U8", "[12]", "[0,12]"), entry("U8", "[12]", "[0,12]")), "overlaps");
  expect_error(two(entry("U8", "[4]", "[4,8]"), entry("U8", "[4]", "[8,12]")), "hole");
  expect_error(two(entry("U8", "[4]", "[0,4]"), entry("U8", "[4]", "[4,8]")), "4 bytes after");
  expect_error(two(entry("U8", "[12]", "[0,12]"), entry("U8", "[0]", "[5,5]")), "overlaps");
}

TEST_F(SafetensorsTest, NamesFromHostileFilesStayOnOneLine) {
  expect_error(R"({"a\nb\u0007":1})", "tensor 'a\\x0Ab\\x07'");
}

TEST_F(SafetensorsTest, RandomDamageIsAnErrorOrAFile) {
  const std::string header = R"({"b":)" + entry("U8", "[4]", "[8,12]") + R"(,"a":)" +
                             entry("F32", "[2,1]", "[0,8]") + R"(,"__metadata__":{"a":"b"}})";
  const std::string good = file_bytes(header, std::string(12, 'x'));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int j = 0; j <= i % 3; ++j) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    error_of(bad);
  }
}

TEST_F(SafetensorsTest, WritesTheBytesHuggingFaceWrites) {
  const std::string data = "abcdefghijklmnop";
  const auto bytes = [&](std::size_t begin, std::size_t count) {
    return [&data, begin, count] { return std::as_bytes(std::span(data)).subspan(begin, count); };
  };
  const auto path = folder_.path() / "out.safetensors";
  write_safetensors(path, {{"z", DType::kF32, {1}, bytes(0, 4)},
                           {"m\"", DType::kBF16, {2, 1}, bytes(4, 4)},
                           {"a", DType::kBF16, {}, bytes(8, 2)},
                           {"i", DType::kI64, {1, 0}, bytes(0, 0)}});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"i":{"dtype":"I64","shape":[1,0],"data_offsets":[0,0]},)"
      R"("z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[4,6]},)"
      R"("m\"":{"dtype":"BF16","shape":[2,1],"data_offsets":[6,10]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_bytes(path), file_bytes(header, "abcdijefgh"));
}

TEST_F(SafetensorsTest, EveryTypeIsKeptToTheBit) {
  std::mt19937 random(2);
  std::vector<std::string> contents;
  std::vector<TensorSource> sources;
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::vector<std::int64_t> shape = {4, static_cast<std::int64_t>(random() % 5) * 2};
    std::string& content = contents.emplace_back(*tensor_bytes(dtype, shape), '\0');
    std::generate(content.begin(), content.end(), [&] { return static_cast<char>(random()); });
    sources.push_back({"t" + std::to_string(random() % 1000) + "_" + std::to_string(i), dtype,
                       shape, [content] { return std::as_bytes(std::span(content)); }});
  }
  const auto path = folder_.path() / "all.safetensors";
  write_safetensors(path, sources, {{"format", "pt"}, {"note", "x\"y"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("note"), "x\"y");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const TensorView* tensor = file.find(sources[i].name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, sources[i].dtype);
    EXPECT_EQ(tensor->shape, sources[i].shape);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(tensor->data), tensor->bytes), contents[i]);
    EXPECT_TRUE(is_aligned(*tensor)) << dtype_name(tensor->dtype);
  }
  std::vector<TensorSource> copies;
  for (const TensorView& tensor : file.tensors()) {
    copies.insert(copies.begin(), copy_of(tensor));
  }
  const auto again = folder_.path() / "again.safetensors";
  write_safetensors(again, copies, file.metadata());
  EXPECT_EQ(read_bytes(again), read_bytes(path));
}

TEST_F(SafetensorsTest, WriterRefusesWhatCouldNotBeRead) {
  const std::string data(8, 'x');
  const auto read = [&] { return std::as_bytes(std::span(data)); };
  const auto path = folder_.path() / "out.safetensors";
  EXPECT_THROW(
      write_safetensors(path, {{"a", DType::kF32, {2}, read}, {"a", DType::kU8, {8}, read}}),
      Error);
  EXPECT_THROW(write_safetensors(path, {{"a", DType::kF32, {3}, read}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", DType::kF32, {-2}, read}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"__metadata__", DType::kF32, {2}, read}}), Error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace darkformer::safetensors_test
