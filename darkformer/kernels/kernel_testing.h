// What the kernel tests share: every instruction set, every thread count, named comparisons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "darkformer/base/poisoned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/cpu_features.h"

namespace darkformer::kernels {

// Runs body once for each instruction set that was compiled and that this machine supports.
template <class Body>
void on_every_target(const Body& body) {
  const std::string before = simd_target();
  for (const std::string& name : simd_targets()) {
    force_simd(name);
    SCOPED_TRACE(name);
    body();
  }
  force_simd(before);
}

template <class Body>
void on_every_thread_count(const Body& body) {
  const int before = threads();
  for (const int count : {1, 2, 3, 4}) {
    set_threads(count);
    SCOPED_TRACE(::testing::Message() << count << " threads");
    body();
  }
  set_threads(before);
}

inline std::vector<float> random_values(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

inline std::vector<float> absolute(std::vector<float> values) {
  for (float& value : values) {
    value = std::abs(value);
  }
  return values;
}

// |got[i] - want[i]| <= bound(i) for all i, every value written, nothing beside them touched.
inline void expect_near(const char* name,
                        const PoisonedBuffer<float>& got,
                        const std::vector<double>& want,
                        const std::function<double(std::size_t)>& bound) {
  ASSERT_EQ(got.size(), want.size()) << name;
  EXPECT_TRUE(got.guards_intact()) << name << " was written out of bounds";
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_FALSE(std::isnan(got[i])) << name << " is NaN at " << i;
    ASSERT_NEAR(got[i], want[i], bound(i)) << name << " at " << i;
  }
}

}  // namespace darkformer::kernels
