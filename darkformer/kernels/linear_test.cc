// linear equals the double product for every stored type, on both sides of the matvec limit.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear.h"

#include <cstdint>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels::linear_test {
namespace {

void check(StoredType type, std::size_t out, std::size_t in, std::size_t rows) {
  SCOPED_TRACE(::testing::Message() << "type " << static_cast<int>(type) << " out " << out << " in "
                                    << in << " rows " << rows);
  const std::vector<float> values = random_values(out * in, 1);
  const std::vector<float> x = random_values(rows * in, 2);
  std::vector<std::uint32_t> memory(out * in + 1);
  convert_from_float(values.data(), type, values.size(), memory.data());
  const StoredMatrix weight{memory.data(), type, out, in};
  PoisonedBuffer<float> y(rows * out);
  linear(weight, x.data(), rows, y.data());
  std::vector<double> want(rows * out), size(rows * out);
  matvec_ref(weight, x.data(), rows, want.data());
  // sum_i |x_i w_i|, by the reference on absolute values
  const std::vector<float> x_size = absolute(x), w_size = absolute(values);
  convert_from_float(w_size.data(), type, w_size.size(), memory.data());
  matvec_ref(weight, x_size.data(), rows, size.data());
  expect_near("y", y, want, [&](std::size_t i) { return sum_bound(kEpsFloat, in, size[i]); });
}

void check_sizes(StoredType type) {
  for (const std::size_t rows : {1, 16, 17, 31}) {
    for (const std::size_t out : {1, 63, 64, 65}) {
      check(type, out, 33, rows);
    }
  }
}

TEST(Linear, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    check_sizes(StoredType::kFloat32);
    check_sizes(StoredType::kBfloat16);
    check_sizes(StoredType::kFloat16);
  });
}

TEST(Linear, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] {
    check(StoredType::kBfloat16, 131, 65, 20);
    check(StoredType::kFloat32, 131, 64, 20);
    check(StoredType::kFloat16, 700, 160, 18);  // more than one block a thread
  });
}

}  // namespace
}  // namespace darkformer::kernels::linear_test
