// The golden models of tests/golden and what an independent implementation computed with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/checkpoint/safetensors.h"
#include "darkformer/checkpoint/tensor_bytes.h"

namespace darkformer {

// tests/golden/README.md says what the files hold.
struct GoldenModel {
  explicit GoldenModel(const std::string& name)
      : folder(std::filesystem::path(DARKFORMER_GOLDEN) / name),
        expected(folder / "expected.safetensors"),
        facts(read_json(folder / "golden.json")) {}

  bool has(const std::string& name) const { return expected.find(name) != nullptr; }
  at::Tensor tensor(const std::string& name) const {
    const TensorView* view = expected.find(name);
    require(view != nullptr, expected.path().string(), ": tensor '", name, "' is missing");
    return copied_tensor(*view);
  }

  std::filesystem::path folder;
  SafetensorsFile expected;
  Json facts;
};

inline constexpr double kGoldenLogits = 2e-4;     // absolute, on logits of order 10
inline constexpr double kGoldenGradients = 1e-3;  // of the largest value of the tensor
inline constexpr double kGoldenLoss = 1e-5;       // relative

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

}  // namespace darkformer
