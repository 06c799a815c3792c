// Rotation: checks, then the kernel with its inverse for backward, or the plain formula.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "darkformer/base/error.h"
#include "darkformer/kernels/rotary.h"
#include "darkformer/ops/heads_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using TablePointer = std::shared_ptr<const RotaryTable>;

// What lets autograd own a table.
struct TableHolder : torch::CustomClassHolder {
  explicit TableHolder(TablePointer pointer) : table(std::move(pointer)) {}
  TablePointer table;
};

kernels::RotaryShape shape_of(const at::Tensor& x, std::int64_t start) {
  const auto size = [&](int dim) { return static_cast<std::size_t>(x.size(dim)); };
  return {size(0), size(1), size(2), size(3), static_cast<std::size_t>(start)};
}

at::Tensor with_dense_rows(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& strided_x,
                            const TablePointer& table,
                            std::int64_t start) {
    const at::Tensor x = with_dense_rows(strided_x);
    at::Tensor y = with_dense_rows(at::empty_like(x));
    kernels::rotary(shape_of(x, start), *table, heads_view(x), heads_view_of_output(y));
    context->saved_data["table"] =
        at::IValue::make_capsule(c10::make_intrusive<TableHolder>(table));
    context->saved_data["start"] = start;
    return y;
  }

  // A rotation's transpose is its inverse; the amplitude stays.
  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("rotary");
    const auto holder = context->saved_data["table"].toCapsule();
    const TablePointer& table = static_cast<const TableHolder&>(*holder).table;
    const at::Tensor dy = with_dense_rows(grads[0]);
    const at::Tensor dx = with_dense_rows(at::empty_like(dy));
    kernels::rotary_backward(shape_of(dy, context->saved_data["start"].toInt()), *table,
                             heads_view(dy), heads_view_of_output(dx));
    return {dx, at::Tensor(), at::Tensor()};
  }
};

at::Tensor composed(const at::Tensor& x, const RotaryTable& table, std::int64_t start) {
  const std::int64_t T = x.size(2), half = x.size(3) / 2;
  const at::Tensor positions = at::arange(start, start + T, at::kDouble);
  const at::Tensor angles = at::outer(positions, at::tensor(table.frequencies()));  // (T,D/2)
  const at::Tensor cosine = (table.amplitude() * angles.cos()).to(x.options()),
                   sine = (table.amplitude() * angles.sin()).to(x.options());
  const at::Tensor first = x.narrow(3, 0, half), second = x.narrow(3, half, half);
  return at::cat({first * cosine - second * sine, first * sine + second * cosine}, 3);
}

}  // namespace

TablePointer make_rotary_table(std::int64_t D, double base, double factor, std::int64_t positions) {
  require(D > 0 && D % 2 == 0 && positions >= 0, "rotary: a table of ", positions,
          " positions for heads of size ", D, "; wanted an even size");
  return std::make_shared<RotaryTable>(
      kernels::rotary_frequencies(static_cast<std::size_t>(D), base, factor),
      static_cast<std::size_t>(positions));
}

TablePointer make_rotary_table(std::vector<double> frequencies,
                               double amplitude,
                               std::int64_t positions) {
  require(!frequencies.empty() && positions >= 0, "rotary: a table of ", positions,
          " positions and ", frequencies.size(), " frequencies");
  return std::make_shared<RotaryTable>(std::move(frequencies), static_cast<std::size_t>(positions),
                                       amplitude);
}

at::Tensor rotary(const at::Tensor& x, const TablePointer& table, std::int64_t start) {
  check_activation("rotary", "x", x);
  require(x.dim() == 4 && x.size(3) == static_cast<std::int64_t>(2 * table->half()),
          "rotary: x is ", describe(x), "; wanted (B,H,T,D) with D = ", 2 * table->half());
  const std::int64_t end = start + x.size(2);
  require(start >= 0 && end <= static_cast<std::int64_t>(table->positions()), "rotary: positions ",
          start, " to ", end, " are not in the table of ", table->positions());
  return takes_kernels(x) ? Rotary::apply(x, table, start) : composed(x, *table, start);
}

}  // namespace darkformer::ops
