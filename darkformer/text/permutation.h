// A shuffled order of [0, n) that is computed, not stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/base/philox.h"

namespace darkformer {

// A bijection of [0, size): a Feistel network whose round function is Philox, over the next power
// of four; values outside the range are sent through again until they fall inside (at most four
// times on average). The same (size, random) gives the same order on every machine. O(1) memory;
// thread-safe; about a microsecond a value.
class Permutation {
 public:
  // size <= 2^62
  Permutation(std::uint64_t size, const Philox& random);

  // The element at place i < size of the order.
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t scramble(std::uint64_t value) const;

  std::uint64_t size_;
  Philox random_;
  int half_bits_;
};

}  // namespace darkformer
