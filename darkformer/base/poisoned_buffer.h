// A test array that starts as NaN between guards, so that missing and stray writes show.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace darkformer {

template <class Value>
class PoisonedBuffer {
 public:
  explicit PoisonedBuffer(std::size_t count)
      : count_(count), memory_(count + 2 * kGuard, std::numeric_limits<Value>::quiet_NaN()) {
    std::fill(memory_.begin(), memory_.begin() + kGuard, kGuardValue);
    std::fill(memory_.end() - kGuard, memory_.end(), kGuardValue);
  }
  Value* data() { return memory_.data() + kGuard; }
  const Value* data() const { return memory_.data() + kGuard; }
  std::size_t size() const { return count_; }
  Value& operator[](std::size_t i) { return data()[i]; }
  const Value& operator[](std::size_t i) const { return data()[i]; }
  Value* begin() { return data(); }
  Value* end() { return data() + count_; }
  const Value* begin() const { return data(); }
  const Value* end() const { return data() + count_; }

  bool guards_intact() const {
    const auto intact = [](Value value) { return value == kGuardValue; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, intact) &&
           std::all_of(memory_.end() - kGuard, memory_.end(), intact);
  }
  bool fully_written() const {
    return std::none_of(begin(), end(), [](Value value) { return std::isnan(value); });
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 64;  // a wide vector on each side
  static constexpr Value kGuardValue = Value(-12345.5);
  std::size_t count_;
  std::vector<Value> memory_;
};

}  // namespace darkformer
