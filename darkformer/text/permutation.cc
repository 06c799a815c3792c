// The Feistel network and its walk back into the range.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace darkformer {
namespace {

// Four rounds make a good permutation of a large range (Luby and Rackoff 1988); ranges of a few
// elements, whose halves have one or two bits, need more.
constexpr std::uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t size, const Philox& random)
    : size_(size),
      random_(random),
      half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  assert(size > 0 && size <= std::uint64_t{1} << 62);
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  assert(i < size_);
  do {
    i = scramble(i);
  } while (i >= size_);
  return i;
}

std::uint64_t Permutation::scramble(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    // (L, R) <- (R, L xor F_round(R))
    const std::uint64_t mixed = left ^ (random_.bits(round << 32 | right) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace darkformer
