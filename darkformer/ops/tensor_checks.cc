// Checks and views of tensors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/tensor_checks.h"

#include <c10/core/GradMode.h>

#include "darkformer/base/error.h"

namespace darkformer::ops {
namespace {

std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    default:
      return c10::toString(type);
  }
}

bool is_stored_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace

std::string describe(const at::Tensor& tensor) {
  return tensor.defined() ? concat(type_name(tensor.scalar_type()), " ", tensor.sizes())
                          : "undefined";
}

bool takes_kernels(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat;
}

void check_activation(const char* op, const char* name, const at::Tensor& x) {
  const bool right =
      x.defined() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  require(right, op, ": ", name, " is ", describe(x), "; wanted float32 or float64");
}

void check_weight_matrix(const char* op, const at::Tensor& weight, const at::Tensor& x) {
  require(weight.defined() && weight.dim() == 2 &&
              (is_stored_type(weight.scalar_type()) || weight.scalar_type() == at::kDouble),
          op, ": weight is ", describe(weight),
          "; wanted a matrix of float32, bfloat16, float16 or float64");
  require(weight.device() == x.device(), op, ": weight is on ", weight.device(), " but x is on ",
          x.device());
  require(!(takes_kernels(x) && weight.scalar_type() == at::kDouble), op,
          ": weight is float64 but x is float32");
  require(!weight.requires_grad() || weight.element_size() >= 4, op, ": a ", describe(weight),
          " weight asks for a gradient; train on float32 weights");
}

void check_ids(const char* op, const char* name, const at::Tensor& ids) {
  require(ids.defined() && (ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt), op,
          ": ", name, " are ", describe(ids), "; wanted int64 or int32");
}

void check_first_order(const char* op) {
  require(!c10::GradMode::is_enabled(), op,
          ": has no second derivatives in float32; use float64 for create_graph");
}

kernels::StoredMatrix stored_matrix(const at::Tensor& weight) {
  using kernels::StoredType;
  const auto type = weight.scalar_type() == at::kFloat      ? StoredType::kFloat32
                    : weight.scalar_type() == at::kBFloat16 ? StoredType::kBfloat16
                                                            : StoredType::kFloat16;
  return {weight.data_ptr(), type, static_cast<std::size_t>(weight.size(0)),
          static_cast<std::size_t>(weight.size(1))};
}

kernels::TokenIds token_ids(const at::Tensor& ids) {
  return ids.scalar_type() == at::kLong ? kernels::TokenIds(ids.data_ptr<std::int64_t>())
                                        : kernels::TokenIds(ids.data_ptr<std::int32_t>());
}

std::int64_t row_count(const at::Tensor& x) {
  std::int64_t rows = 1;
  for (const std::int64_t size : x.sizes().slice(0, x.dim() - 1)) {
    rows *= size;
  }
  return rows;
}

}  // namespace darkformer::ops
