// Weights as they lie in a model file: float32, or 16-bit floats that are widened when used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace darkformer::kernels {

enum class StoredType : std::uint8_t { kFloat32, kBfloat16, kFloat16 };

constexpr std::size_t stored_bytes(StoredType type) {
  return type == StoredType::kFloat32 ? 4 : 2;
}

// A contiguous row-major (rows, cols) matrix, each value aligned to its own size. Owns nothing.
struct StoredMatrix {
  const void* data = nullptr;
  StoredType type = StoredType::kFloat32;
  std::size_t rows = 0, cols = 0;

  std::size_t row_bytes() const { return cols * stored_bytes(type); }
  const void* row(std::size_t r) const {
    return static_cast<const unsigned char*>(data) + r * row_bytes();
  }
  // Rows [begin, end).
  StoredMatrix slice(std::size_t begin, std::size_t end) const {
    return {row(begin), type, end - begin, cols};
  }
};

}  // namespace darkformer::kernels
