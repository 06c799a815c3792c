// Names and sizes of element types.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/dtype.h"

#include <array>
#include <limits>

namespace darkformer {
namespace {

struct Entry {
  std::string_view name;
  std::uint64_t bits;
};

// Indexed by DType.
constexpr std::array<Entry, 22> kEntries = {
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}}};

}  // namespace

std::string_view dtype_name(DType dtype) {
  return kEntries[static_cast<std::size_t>(dtype)].name;
}

std::uint64_t dtype_bits(DType dtype) {
  return kEntries[static_cast<std::size_t>(dtype)].bits;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].name == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bits = dtype_bits(dtype);
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && bits > kMost / static_cast<std::uint64_t>(size))) {
      return std::nullopt;
    }
    bits *= static_cast<std::uint64_t>(size);
  }
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

}  // namespace darkformer
