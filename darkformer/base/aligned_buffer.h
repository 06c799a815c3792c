// A grow-only scratch array aligned for SIMD; its contents are not initialised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace darkformer {

inline constexpr std::size_t kCacheLine = 64;

template <class Value>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t count) { reserve(count); }

  // At least `count` values; the old contents are lost when it has to grow.
  Value* reserve(std::size_t count) {
    if (count > capacity_) {
      const std::size_t bytes = (count * sizeof(Value) + kCacheLine - 1) / kCacheLine * kCacheLine;
      auto* memory = static_cast<Value*>(std::aligned_alloc(kCacheLine, bytes));
      if (memory == nullptr) {
        throw std::bad_alloc();
      }
      memory_.reset(memory);
      capacity_ = count;
    }
    return memory_.get();
  }
  Value* data() { return memory_.get(); }
  const Value* data() const { return memory_.get(); }
  std::size_t capacity() const { return capacity_; }
  Value& operator[](std::size_t i) { return memory_.get()[i]; }
  const Value& operator[](std::size_t i) const { return memory_.get()[i]; }

 private:
  struct Free {
    void operator()(Value* memory) const { std::free(memory); }
  };
  std::unique_ptr<Value, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace darkformer
