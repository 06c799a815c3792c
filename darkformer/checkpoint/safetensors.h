// safetensors files: a mapped reader that trusts nothing, and a streaming writer.
// SPDX-License-Identifier: Apache-2.0
//
// The format: 8 bytes with the header's length N (little endian), N bytes of JSON
//   {"__metadata__": {"format": "pt"}, "name": {"dtype": "BF16", "shape": [2,3], "data_offsets":
//   [0,12]}, ...}
// padded with spaces, then the tensors' bytes, row-major, little endian, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "darkformer/base/mapped_file.h"
#include "darkformer/checkpoint/dtype.h"

namespace darkformer {

// One tensor of a file. `data` points into the mapping and lives as long as the file object; it may
// be unaligned for its type in files of other writers (is_aligned).
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// May data be read through a pointer to its element type?
bool is_aligned(const TensorView& tensor);

// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

// Opens and checks a file: the header's size and JSON, every dtype, shape and offset, no name
// twice, sizes that match, no overlap, no hole, nothing missing and nothing left over at the end.
// Error in one line that names the file and the tensor. Reading is thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  // In the order of the bytes. Views stay valid when the file object is moved.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  // Null when there is no such tensor.
  const TensorView* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::map<std::string, std::string> metadata_;
};

// One tensor to write. `read` is called once, when its turn comes, and gives its bytes, which must
// stay until the next tensor's turn: a whole model need not be in memory.
struct TensorSource {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::function<std::span<const std::byte>()> read;
};

// The tensor of another file, or any bytes that outlive the writing, as a source.
TensorSource copy_of(const TensorView& tensor);

using SafetensorsMetadata = std::map<std::string, std::string>;

// {"format": "pt"}: what Hugging Face writes, and asks for when it reads.
inline SafetensorsMetadata pytorch_metadata() {
  return {{"format", "pt"}};
}

// Writes atomically. The layout is Hugging Face's: types by falling alignment, then names; equal
// tensors give equal files. Error: a name twice, bytes that do not fit the shape, disk full.
void write_safetensors(const std::filesystem::path& path,
                       std::vector<TensorSource> tensors,
                       const SafetensorsMetadata& metadata = pytorch_metadata());

}  // namespace darkformer
