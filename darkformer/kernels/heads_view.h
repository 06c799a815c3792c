// A (batch, head, time, element) array with any strides: what every attention kernel takes and
// gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

// Strides are in elements; a stride of 0 repeats (an expanded tensor). The view owns nothing.
template <class Value>
struct HeadsView {
  Value* data = nullptr;
  std::ptrdiff_t batch = 0, head = 0, time = 0, element = 1;

  Value* row(std::size_t b, std::size_t h, std::size_t t) const {
    return data + static_cast<std::ptrdiff_t>(b) * batch + static_cast<std::ptrdiff_t>(h) * head +
           static_cast<std::ptrdiff_t>(t) * time;
  }
  explicit operator bool() const { return data != nullptr; }
};

// The view of a contiguous (B, H, T, D) array.
template <class Value>
HeadsView<Value> contiguous_heads(Value* data, std::size_t H, std::size_t T, std::size_t D) {
  const auto h = static_cast<std::ptrdiff_t>(H), t = static_cast<std::ptrdiff_t>(T),
             d = static_cast<std::ptrdiff_t>(D);
  return {data, h * t * d, t * d, d, 1};
}

}  // namespace darkformer::kernels
