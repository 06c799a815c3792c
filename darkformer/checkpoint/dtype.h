// The element types of safetensors files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace darkformer {

// In the order of the format's own list, which is also the order of their alignment: files are laid
// out from the last to the first.
enum class DType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// "BF16", as written in the file.
std::string_view dtype_name(DType dtype);
std::optional<DType> find_dtype(std::string_view name);
std::uint64_t dtype_bits(DType dtype);

// The bytes of a tensor: product of shape times the element's size; a scalar has shape []. Nothing
// when that overflows, a size is negative, or sub-byte elements do not fill their last byte.
std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

}  // namespace darkformer
