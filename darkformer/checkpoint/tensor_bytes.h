// libtorch's tensors and the tensors of safetensors files, each as the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "darkformer/checkpoint/safetensors.h"

namespace darkformer {

// The tensor of a view, without a copy where its bytes are aligned; `owner` keeps them alive. It
// must not be written to: the bytes are mapped read-only. Error: a type libtorch does not have.
at::Tensor mapped_tensor(const TensorView& view, std::shared_ptr<const void> owner);
// A tensor of its own with the view's values.
at::Tensor copied_tensor(const TensorView& view);

// A tensor of any strides to be written; its values are taken when its turn comes.
TensorSource source_of(std::string name, const at::Tensor& tensor);

}  // namespace darkformer
