// The names that differ between the versions of libtorch, 1.13 to 2.x (docs/libtorch.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
#include <optional>
#else
#include <c10/util/Optional.h>
#endif

namespace darkformer::ops {

// What op schemas and autograd functions take for an optional argument.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
template <class Value>
using Optional = std::optional<Value>;
#else
template <class Value>
using Optional = c10::optional<Value>;
#endif

}  // namespace darkformer::ops
