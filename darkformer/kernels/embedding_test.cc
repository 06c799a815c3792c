// embed equals its reference: out and dweight, stored types, id widths, threads, repeated ids.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/embedding.h"

#include <algorithm>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::embedding_test {
namespace {

// Ids below V, most of them among the first few: rows that are hit often.
template <class Id>
std::vector<Id> random_ids(std::size_t tokens, std::size_t V) {
  std::mt19937 generator(9);
  std::vector<Id> ids(tokens);
  for (std::size_t n = 0; n < tokens; ++n) {
    ids[n] = static_cast<Id>(generator() % (n % 3 == 0 ? V : std::min<std::size_t>(V, 3)));
  }
  return ids;
}

template <class Id>
void check_gather(StoredType type, std::size_t tokens, std::size_t V, std::size_t E) {
  const std::vector<float> values = random_values(V * E, 1);
  std::vector<std::uint32_t> memory(V * E + 1);
  convert_from_float(values.data(), type, values.size(), memory.data());
  const StoredMatrix weight{memory.data(), type, V, E};
  const std::vector<Id> ids = random_ids<Id>(tokens, V);
  const float scale = 5.25F;
  PoisonedBuffer<float> out(tokens * E);
  embed(weight, ids.data(), tokens, scale, out.data());
  std::vector<double> want(tokens * E);
  embed_ref(weight, ids.data(), tokens, scale, want.data());
  expect_near("out", out, want, [&](std::size_t i) { return kEpsFloat * std::abs(want[i]); });
}

template <class Id>
void check_scatter(const EmbeddingShape& shape) {
  const std::vector<float> dout = random_values(shape.tokens * shape.E, 1);
  const std::vector<float> before = random_values(shape.V * shape.E, 2);
  const std::vector<Id> ids = random_ids<Id>(shape.tokens, shape.V);
  const float scale = 1.5F;
  PoisonedBuffer<float> dweight(before.size());
  std::copy(before.begin(), before.end(), dweight.begin());
  embed_backward(shape, ids.data(), dout.data(), scale, dweight.data());
  std::vector<double> want(before.begin(), before.end()), size(before.size());
  embed_backward_ref(shape, ids.data(), dout.data(), scale, want.data());
  const std::vector<float> dout_size = absolute(dout), before_size = absolute(before);
  std::copy(before_size.begin(), before_size.end(), size.begin());
  embed_backward_ref(shape, ids.data(), dout_size.data(), scale, size.data());
  const auto bound = [&](std::size_t i) { return sum_bound(kEpsFloat, shape.tokens, size[i]); };
  expect_near("dweight", dweight, want, bound);
  for (std::size_t v = 0; v < shape.V; ++v) {
    if (std::find(ids.begin(), ids.end(), static_cast<Id>(v)) == ids.end()) {
      ASSERT_EQ(dweight[v * shape.E], before[v * shape.E]) << "row " << v << " has no id";
    }
  }
}

TEST(Embedding, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t tokens : {0, 1, 2, 33}) {
      for (const std::size_t E : {1, 15, 16, 17, 65}) {
        check_gather<std::int64_t>(StoredType::kFloat32, tokens, 7, E);
        check_gather<std::int32_t>(StoredType::kBfloat16, tokens, 50, E);
        check_gather<std::int64_t>(StoredType::kFloat16, tokens, 1, E);
        check_scatter<std::int32_t>({tokens, 7, E});
        check_scatter<std::int64_t>({tokens, 50, E});
      }
    }
  });
}

TEST(Embedding, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] {
    check_gather<std::int64_t>(StoredType::kBfloat16, 300, 20, 130);
    check_scatter<std::int64_t>({300, 20, 130});
  });
}

TEST(Embedding, ThreadsDoNotChangeABit) {
  const EmbeddingShape shape{500, 11, 131};
  const std::vector<float> dout = random_values(shape.tokens * shape.E, 1);
  const std::vector<std::int32_t> ids = random_ids<std::int32_t>(shape.tokens, shape.V);
  std::vector<std::vector<float>> all;
  on_every_thread_count([&] {
    std::vector<float> dweight(shape.V * shape.E, 0.0F);
    embed_backward(shape, ids.data(), dout.data(), 3.0F, dweight.data());
    all.push_back(dweight);
  });
  for (const auto& result : all) {
    EXPECT_EQ(result, all.front());
  }
}

}  // namespace
}  // namespace darkformer::kernels::embedding_test
