// A list of token ids in either width: int32 from text, int64 from tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace darkformer::kernels {

class TokenIds {
 public:
  // Not explicit: a pointer to ids of either width is a list of ids. Owns nothing.
  TokenIds(const std::int32_t* ids) : narrow_(ids) {}  // NOLINT(google-explicit-constructor)
  TokenIds(const std::int64_t* ids) : wide_(ids) {}    // NOLINT(google-explicit-constructor)

  std::int64_t operator[](std::size_t i) const {
    return wide_ != nullptr ? wide_[i] : static_cast<std::int64_t>(narrow_[i]);
  }
  TokenIds from(std::size_t start) const {
    return wide_ != nullptr ? TokenIds(wide_ + start) : TokenIds(narrow_ + start);
  }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
};

}  // namespace darkformer::kernels
