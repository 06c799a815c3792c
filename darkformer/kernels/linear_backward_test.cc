// The gradients of linear equal plain double sums for every stored type.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear_backward.h"

#include <cstdint>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::linear_backward_test {
namespace {

// A double sum and the sum of its terms' sizes.
struct Sums {
  explicit Sums(std::size_t count) : value(count), size(count) {}
  void add(std::size_t i, double term) {
    value[i] += term;
    size[i] += std::abs(term);
  }
  std::vector<double> value, size;
};

void check(StoredType type, std::size_t out, std::size_t in, std::size_t rows) {
  SCOPED_TRACE(::testing::Message() << "type " << static_cast<int>(type) << " out " << out << " in "
                                    << in << " rows " << rows);
  const std::vector<float> values = random_values(out * in, 1);
  const std::vector<float> x = random_values(rows * in, 2), dy = random_values(rows * out, 3);
  std::vector<std::uint32_t> memory(out * in + 1);
  convert_from_float(values.data(), type, values.size(), memory.data());
  PoisonedBuffer<float> dx(rows * in), dweight(out * in);
  linear_backward_input({memory.data(), type, out, in}, dy.data(), rows, dx.data());
  linear_backward_weight({rows, in, out}, x.data(), dy.data(), dweight.data());
  Sums want_dx(rows * in), want_dweight(out * in);
  for (std::size_t n = 0; n < rows; ++n) {
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) {
        const double dy_no = dy[n * out + o];
        want_dx.add(n * in + i, dy_no * stored_value(memory.data(), type, o * in + i));
        want_dweight.add(o * in + i, dy_no * x[n * in + i]);
      }
    }
  }
  expect_near("dx", dx, want_dx.value,
              [&](std::size_t i) { return sum_bound(kEpsFloat, out, want_dx.size[i]); });
  expect_near("dweight", dweight, want_dweight.value,
              [&](std::size_t i) { return sum_bound(kEpsFloat, rows, want_dweight.size[i]); });
}

TEST(LinearBackward, EqualsReferenceForOddSizes) {
  for (const StoredType type :
       {StoredType::kFloat32, StoredType::kBfloat16, StoredType::kFloat16}) {
    for (const std::size_t rows : {1, 8, 9}) {
      check(type, 1, 33, rows);
      check(type, 17, 1, rows);
      check(type, 37, 20, rows);
    }
  }
}

TEST(LinearBackward, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] {
    check(StoredType::kFloat32, 131, 64, 20);
    check(StoredType::kBfloat16, 700, 1600, 3);  // more than one block of the weight
  });
}

}  // namespace
}  // namespace darkformer::kernels::linear_backward_test
