// adamw_step equals its reference over many steps: p, m and v by name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/adamw.h"

#include <algorithm>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::adamw_test {
namespace {

struct State {
  PoisonedBuffer<float> p, m, v;
  std::vector<float> g;

  explicit State(std::size_t count) : p(count), m(count), v(count) {
    const std::vector<float> start = random_values(count, 1);
    std::copy(start.begin(), start.end(), p.begin());
    std::fill(m.begin(), m.end(), 0.0F);
    std::fill(v.begin(), v.end(), 0.0F);
  }
  AdamwArrays arrays() { return {p.data(), g.data(), m.data(), v.data(), p.size()}; }
};

// One step against the reference from the same state.
void check_step(State& state, const AdamwSettings& s) {
  const std::size_t count = state.p.size();
  const AdamwArrays before = state.arrays();
  std::vector<double> p(count), m(count), v(count), p_bound(count), m_bound(count);
  adamw_step_ref(s, before, p.data(), m.data(), v.data());
  const auto t = static_cast<double>(s.step);
  const double step = s.learning_rate / (1.0 - std::pow(s.beta1, t));
  for (std::size_t i = 0; i < count; ++i) {
    // Each product and its factor round once or twice; m may cancel, so it counts its two terms.
    m_bound[i] = 4.0 * kEpsFloat *
                 (std::abs(s.beta1 * before.m[i]) +
                  std::abs((1.0 - s.beta1) * s.gradient_scale * before.g[i]));
    const double root = std::sqrt(v[i] / (1.0 - std::pow(s.beta2, t))) + s.epsilon;
    p_bound[i] = 2.0 * kEpsFloat * std::abs(before.p[i]) + kEpsFloat * std::abs(p[i]) +
                 step * (m_bound[i] + 8.0 * kEpsFloat * std::abs(m[i])) / root;
  }
  adamw_step(s, before);
  expect_near("m", state.m, m, [&](std::size_t i) { return m_bound[i]; });
  expect_near("v", state.v, v, [&](std::size_t i) { return 8.0 * kEpsFloat * v[i]; });
  expect_near("p", state.p, p, [&](std::size_t i) { return p_bound[i]; });
}

void check_run(std::size_t count, AdamwSettings settings) {
  State state(count);
  for (int step = 1; step <= 20; ++step) {
    settings.step = step;
    state.g = random_values(count, 100 + static_cast<unsigned>(step), 1e-2F);
    ASSERT_NO_FATAL_FAILURE(check_step(state, settings)) << "step " << step;
  }
}

TEST(Adamw, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t count : {0, 1, 15, 16, 17, 100}) {
      check_run(count, {});
      check_run(count, {.learning_rate = 0.02, .weight_decay = 0.1, .gradient_scale = 0.37});
      check_run(count, {.beta1 = 0.0, .beta2 = 0.95, .epsilon = 1e-6});
    }
  });
}

TEST(Adamw, LateStepsAndZeroGradients) {
  State state(33);
  state.g.assign(33, 0.0F);
  check_step(state, {.weight_decay = 0.5, .step = 1000000});
  state.g = random_values(33, 5, 1e-12F);
  check_step(state, {.step = 1});
}

TEST(Adamw, ThreadsDoNotChangeABit) {
  const std::vector<float> g = random_values(50001, 7);
  std::vector<std::vector<float>> all;
  on_every_thread_count([&] {
    State state(g.size());
    state.g = g;
    check_step(state, {.weight_decay = 0.01});
    all.emplace_back(state.p.begin(), state.p.end());
  });
  for (const auto& result : all) {
    EXPECT_EQ(result, all.front());
  }
}

}  // namespace
}  // namespace darkformer::kernels::adamw_test
