// A fast 64-bit checksum (XXH64) against accidents, for files we write and for cache keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace darkformer {

// XXH64 of a byte stream given in pieces of any size; the value depends on the bytes and the seed
// alone, so other tools (xxhsum, python-xxhash) can check our files. Not thread-safe.
class Checksum {
 public:
  explicit Checksum(std::uint64_t seed = 0);

  void update(const void* bytes, std::size_t size);
  // The checksum of everything so far; more may follow.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;

  std::uint64_t finish_tail(std::uint64_t hash) const;

  std::uint64_t seed_;
  std::uint64_t total_ = 0;
  std::array<std::uint64_t, 4> lanes_;
  std::array<unsigned char, kStripe> tail_{};  // the first total_ % kStripe bytes are waiting
};

std::uint64_t checksum(const void* bytes, std::size_t size, std::uint64_t seed = 0);
std::uint64_t checksum(std::string_view bytes, std::uint64_t seed = 0);

// 16 lower-case hexadecimal digits, for file names and messages.
std::string to_hex(std::uint64_t value);

// A key made of named parts: each part carries its length, so ("ab", "c") and ("a", "bc") differ.
class KeyBuilder {
 public:
  KeyBuilder& add(std::string_view text);
  KeyBuilder& add(std::uint64_t number);
  std::uint64_t value() const { return checksum_.value(); }

 private:
  Checksum checksum_;
};

}  // namespace darkformer
