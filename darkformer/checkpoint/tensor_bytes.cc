// Types and bytes between libtorch and safetensors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/tensor_bytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 10> kTypes = {{
    {DType::kBool, at::kBool},
    {DType::kU8, at::kByte},
    {DType::kI8, at::kChar},
    {DType::kI16, at::kShort},
    {DType::kI32, at::kInt},
    {DType::kI64, at::kLong},
    {DType::kF16, at::kHalf},
    {DType::kBF16, at::kBFloat16},
    {DType::kF32, at::kFloat},
    {DType::kF64, at::kDouble},
}};

at::ScalarType scalar_type_of(const TensorView& view) {
  for (const auto& [dtype, type] : kTypes) {
    if (dtype == view.dtype) {
      return type;
    }
  }
  fail("tensor '", printable(view.name), "' has type ", dtype_name(view.dtype),
       ", which cannot be computed with");
}

DType dtype_of(const at::Tensor& tensor) {
  for (const auto& [dtype, type] : kTypes) {
    if (type == tensor.scalar_type()) {
      return dtype;
    }
  }
  fail("a tensor of type ", c10::toString(tensor.scalar_type()), " cannot be written");
}

}  // namespace

at::Tensor mapped_tensor(const TensorView& view, std::shared_ptr<const void> owner) {
  if (!is_aligned(view) || view.bytes == 0) {
    return copied_tensor(view);
  }
  auto* const bytes = const_cast<std::byte*>(view.data);  // libtorch has no read-only tensors
  return at::from_blob(
      bytes, view.shape, [owner = std::move(owner)](void*) {},
      at::TensorOptions(scalar_type_of(view)));
}

at::Tensor copied_tensor(const TensorView& view) {
  at::Tensor tensor = at::empty(view.shape, at::TensorOptions(scalar_type_of(view)));
  if (view.bytes > 0) {
    std::memcpy(tensor.data_ptr(), view.data, view.bytes);
  }
  return tensor;
}

TensorSource source_of(std::string name, const at::Tensor& tensor) {
  const at::Tensor held = tensor.detach();
  return {std::move(name), dtype_of(held), held.sizes().vec(),
          [held, dense = at::Tensor()]() mutable {
            dense = held.contiguous();
            return std::span(static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes());
          }};
}

}  // namespace darkformer
