// Decode speed: matvec against a plain loop that only reads the same bytes, in the same run.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/matvec.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"

namespace darkformer::kernels {
namespace {

// Larger than the last-level cache, so that the weights come from memory, as in a real model.
constexpr std::size_t kBytes = std::size_t{128} << 20U;
constexpr std::size_t kIn = 2048;

struct Weights {
  AlignedBuffer<std::uint64_t> memory{kBytes / 8};
  StoredMatrix weight;

  explicit Weights(StoredType type)
      : weight{memory.data(), type, kBytes / kIn / stored_bytes(type), kIn} {
    std::vector<float> row(kIn);
    std::mt19937 generator(1);
    for (std::size_t o = 0; o < weight.rows; ++o) {
      for (float& value : row) {
        value = static_cast<float>(generator()) * 0x1p-32F - 0.5F;
      }
      auto* to = reinterpret_cast<unsigned char*>(memory.data()) + o * weight.row_bytes();
      convert_from_float(row.data(), type, kIn, to);
    }
  }
};

bool answer_is_right(const StoredMatrix& weight,
                     const std::vector<float>& x,
                     const float* y,
                     std::size_t vectors) {
  for (const std::size_t o : {std::size_t{0}, weight.rows / 2, weight.rows - 1}) {
    std::vector<double> want(vectors);
    matvec_ref(weight.slice(o, o + 1), x.data(), vectors, want.data());
    for (std::size_t n = 0; n < vectors; ++n) {
      if (std::abs(want[n] - y[n * weight.rows + o]) > 1e-3) {
        return false;
      }
    }
  }
  return true;
}

// The opponent: 8 independent integer sums over the bytes, which the compiler vectorises.
std::uint64_t read_all(const StoredMatrix& weight) {
  const std::size_t words = weight.rows * weight.row_bytes() / 8;
  const auto* data = static_cast<const std::uint64_t*>(weight.data);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads()));
  parallel_for(sums.size(), [&](std::size_t t) {
    std::uint64_t sum[8] = {};
    const std::size_t begin = words * t / sums.size(), end = words * (t + 1) / sums.size();
    for (std::size_t i = begin; i + 8 <= end; i += 8) {
      for (std::size_t j = 0; j < 8; ++j) {
        sum[j] += data[i + j];
      }
    }
    sums[t] = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
  });
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) {
    total += sum;
  }
  return total;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Each iteration reads the bytes, then multiplies them: the ratio is of two times taken side by
// side. Only the product is on the clock.
void bench_matvec(benchmark::State& state, StoredType type, int thread_count, std::size_t vectors) {
  const Weights weights(type);
  const StoredMatrix& weight = weights.weight;
  const std::vector<float> x(vectors * weight.cols, 0.25F);
  std::vector<float> y(vectors * weight.rows);
  set_threads(thread_count);
  matvec(weight, x.data(), vectors, y.data());
  if (!answer_is_right(weight, x, y.data(), vectors)) {
    state.SkipWithError("matvec is wrong");
    return;
  }
  std::vector<double> ratios;
  for ([[maybe_unused]] auto _ : state) {
    const double read = seconds_of([&] { benchmark::DoNotOptimize(read_all(weight)); });
    const double product = seconds_of([&] { matvec(weight, x.data(), vectors, y.data()); });
    state.SetIterationTime(product);
    ratios.push_back(read / product);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kBytes));
  std::nth_element(ratios.begin(), ratios.begin() + ratios.size() / 2, ratios.end());
  state.counters["share_of_read"] = ratios[ratios.size() / 2];
}

const char* name_of(StoredType type) {
  return type == StoredType::kFloat32    ? "float32"
         : type == StoredType::kBfloat16 ? "bfloat16"
                                         : "float16";
}

void register_all() {
  for (const int thread_count : {1, 2}) {
    for (const StoredType type :
         {StoredType::kFloat32, StoredType::kBfloat16, StoredType::kFloat16}) {
      for (const std::size_t vectors : {1, 2, 4, 8, 16}) {
        const std::string name = std::string("matvec/") + name_of(type) + "_vectors" +
                                 std::to_string(vectors) + "_threads" +
                                 std::to_string(thread_count);
        benchmark::RegisterBenchmark(name.c_str(), bench_matvec, type, thread_count, vectors)
            ->UseManualTime();
      }
    }
  }
}

}  // namespace
}  // namespace darkformer::kernels

int main(int argc, char** argv) {
  darkformer::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
