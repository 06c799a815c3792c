// Embeddings: output and gradient against the plain look-up; stored tables; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/embedding.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::embedding_test {
namespace {

TEST(EmbeddingOp, GradientEqualsThatOfTheFormula) {
  for (const at::ScalarType type : {at::kLong, at::kInt}) {
    const at::Tensor ids = at::randint(0, 11, {3, 9}, type);  // ids repeat
    check_gradients(
        {{"weight", at::randn({11, 17})}},
        [&](const Tensors& in) { return ops::embedding(ids, in[0], 4.25); }, 27);
  }
}

TEST(EmbeddingOp, WidensAStoredTable) {
  const at::Tensor ids = at::tensor({0, 4, 4, 2}, at::kLong);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor weight = at::randn({5, 6}).to(type);
    const at::Tensor y = ops::embedding(ids, weight, 3);
    EXPECT_EQ(y.scalar_type(), at::kFloat);
    EXPECT_TRUE(y.equal(weight.to(at::kFloat).index_select(0, ids) * 3));
  }
}

TEST(EmbeddingOp, RefusesWrongArguments) {
  const at::Tensor weight = at::randn({5, 6});
  expect_error(
      [&] {
        ops::embedding(at::tensor({0, 5}, at::kLong), weight, 1);
      },
      "embedding: id 5 at place 1 is outside the vocabulary of 5");
  expect_error([&] { ops::embedding(at::tensor({-1}, at::kInt), weight, 1); }, "embedding: id -1");
  expect_error([&] { ops::embedding(at::randn({3}), weight, 1); },
               "embedding: ids are float32 [3]");
}

}  // namespace
}  // namespace darkformer::ops::embedding_test
