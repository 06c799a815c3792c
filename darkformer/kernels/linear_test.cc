// linear equals the double product for every stored type, on both sides of the matvec limit.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear.h"

#include <cstdint>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels {
namespace {

void check(StoredType type, std::size_t out, std::size_t in, std::size_t N) {
  SCOPED_TRACE(::testing::Message() << "type " << static_cast<int>(type) << " out " << out << " in "
                                    << in << " N " << N);
  const std::vector<float> values = random_values(out * in, 1);
  const std::vector<float> x = random_values(N * in, 2);
  std::vector<std::uint32_t> memory(out * in + 1);
  convert_from_float(values.data(), type, values.size(), memory.data());
  const StoredMatrix W{memory.data(), type, out, in};
  PoisonedBuffer<float> y(N * out);
  linear(W, x.data(), N, y.data());
  std::vector<double> want(N * out), size(N * out);
  matvec_ref(W, x.data(), N, want.data());
  // sum_i |x_i w_i|, by the reference on absolute values
  const std::vector<float> x_size = absolute(x), w_size = absolute(values);
  convert_from_float(w_size.data(), type, w_size.size(), memory.data());
  matvec_ref(W, x_size.data(), N, size.data());
  expect_near("y", y, want, [&](std::size_t i) { return sum_bound(kEpsFloat, in, size[i]); });
}

void check_backward(StoredType type, std::size_t out, std::size_t in, std::size_t N) {
  SCOPED_TRACE(::testing::Message() << "type " << static_cast<int>(type) << " out " << out << " in "
                                    << in << " N " << N);
  const std::vector<float> values = random_values(out * in, 1);
  const std::vector<float> x = random_values(N * in, 2), dy = random_values(N * out, 3);
  std::vector<std::uint32_t> memory(out * in + 1);
  convert_from_float(values.data(), type, values.size(), memory.data());
  const StoredMatrix W{memory.data(), type, out, in};
  PoisonedBuffer<float> dx(N * in), dW(out * in);
  linear_backward_input(W, dy.data(), N, dx.data());
  linear_backward_weight({N, in, out}, x.data(), dy.data(), dW.data());
  std::vector<double> want_dx(N * in), size_dx(N * in), want_dW(out * in), size_dW(out * in);
  for (std::size_t n = 0; n < N; ++n) {
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) {
        const double dx_term = double{dy[n * out + o]} * stored_value(W.data, type, o * in + i);
        const double dW_term = double{dy[n * out + o]} * x[n * in + i];
        want_dx[n * in + i] += dx_term;
        size_dx[n * in + i] += std::abs(dx_term);
        want_dW[o * in + i] += dW_term;
        size_dW[o * in + i] += std::abs(dW_term);
      }
    }
  }
  expect_near("dx", dx, want_dx,
              [&](std::size_t i) { return sum_bound(kEpsFloat, out, size_dx[i]); });
  expect_near("dW", dW, want_dW,
              [&](std::size_t i) { return sum_bound(kEpsFloat, N, size_dW[i]); });
}

TEST(Linear, GradientsEqualReference) {
  on_every_thread_count([] {
    for (const StoredType type :
         {StoredType::kFloat32, StoredType::kBfloat16, StoredType::kFloat16}) {
      for (const std::size_t N : {1, 8, 9}) {
        check_backward(type, 1, 33, N);
        check_backward(type, 17, 1, N);
        check_backward(type, 37, 20, N);
      }
    }
    check_backward(StoredType::kBfloat16, 700, 1600, 3);  // more than one block of W
  });
}

TEST(Linear, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const StoredType type :
         {StoredType::kFloat32, StoredType::kBfloat16, StoredType::kFloat16}) {
      for (const std::size_t N : {1, 8, 9, 31}) {
        for (const std::size_t out : {1, 15, 16, 17, 50}) {
          check(type, out, 33, N);
        }
      }
    }
  });
}

TEST(Linear, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] {
    check(StoredType::kBfloat16, 131, 64, 20);
    check(StoredType::kFloat32, 131, 64, 20);
    check(StoredType::kFloat16, 700, 1600, 10);  // more than one block a thread
  });
}

}  // namespace
}  // namespace darkformer::kernels
