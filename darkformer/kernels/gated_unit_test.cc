// gated_unit equals its reference within its stated bound: y, dgate and dup by name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gated_unit.h"

#include <algorithm>
#include <array>
#include <limits>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::gated_unit_test {
namespace {

constexpr std::array<Activation, 2> kAll = {Activation::kGeluTanh, Activation::kSilu};

struct Problem {
  Activation act;
  std::vector<float> gate, up, dy;
  std::vector<double> y, dgate, dup;  // the reference

  Problem(Activation activation, std::vector<float> gates)
      : act(activation),
        gate(std::move(gates)),
        up(random_values(gate.size(), 2)),
        dy(random_values(gate.size(), 3)),
        y(gate.size()),
        dgate(gate.size()),
        dup(gate.size()) {
    gated_unit_ref(act, gate.size(), gate.data(), up.data(), y.data());
    gated_unit_backward_ref(act, gate.size(), gate.data(), up.data(), dy.data(), dgate.data(),
                            dup.data());
  }
  // a and a' of the header.
  double argument(double g) const {
    return act == Activation::kSilu ? g : 1.5957691216 * (g + 0.044715 * g * g * g);
  }
  double slope(double g) const {
    return act == Activation::kSilu ? 1.0 : 1.5957691216 * (1.0 + 3.0 * 0.044715 * g * g);
  }
  // eps (6 + 4 |a|), as the header says, times the size of what is added up.
  double relative(std::size_t i) const {
    return kEpsFloat * (6.0 + 4.0 * std::abs(argument(gate[i])));
  }
  // exp of a far tail ends in subnormals, whose unit is 1.4e-45.
  double tiny(std::size_t i) const { return 1e-44 * (1.0 + std::abs(gate[i] * up[i])); }
  double y_bound(std::size_t i) const { return relative(i) * std::abs(y[i]) + tiny(i); }
  double dup_bound(std::size_t i) const {
    return relative(i) * std::abs(dup[i]) + kEpsFloat * kEpsFloat * std::abs(dy[i] * gate[i]);
  }
  double dgate_bound(std::size_t i) const {
    const double g = gate[i];
    const double s = 1.0 / (1.0 + std::exp(-argument(g)));
    const double magnitude = s + std::abs(g) * s * (1.0 - s) * slope(g);
    const double factor = std::abs(static_cast<double>(dy[i]) * up[i]);
    return factor * (relative(i) * magnitude + kEpsFloat * kEpsFloat);
  }
};

void check(const Problem& p) {
  const std::size_t count = p.gate.size();
  PoisonedBuffer<float> y(count), dgate(count), dup(count);
  gated_unit(p.act, count, p.gate.data(), p.up.data(), y.data());
  gated_unit_backward(p.act, count, p.gate.data(), p.up.data(), p.dy.data(), dgate.data(),
                      dup.data());
  expect_near("y", y, p.y, [&](std::size_t i) { return p.y_bound(i); });
  expect_near("dgate", dgate, p.dgate, [&](std::size_t i) { return p.dgate_bound(i); });
  expect_near("dup", dup, p.dup, [&](std::size_t i) { return p.dup_bound(i); });
}

TEST(GatedUnit, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const Activation act : kAll) {
      for (const std::size_t count : {0, 1, 3, 15, 16, 17, 65, 1000}) {
        check(Problem(act, random_values(count, 1, 2.0F)));
      }
    }
  });
}

TEST(GatedUnit, EqualsReferenceOverTheWholeRange) {
  std::vector<float> gates;
  for (int i = -4000; i <= 4000; ++i) {
    gates.push_back(static_cast<float>(i) * 0.003F);
  }
  for (const float g : {0.0F, 1e-30F, 19.9F, 20.1F, 1e3F, 1e12F}) {
    gates.push_back(g);
    gates.push_back(-g);
  }
  for (const Activation act : kAll) {
    const Problem problem(act, gates);
    on_every_target([&] { check(problem); });
  }
}

TEST(GatedUnit, HugeGatesStayFinite) {
  const std::vector<float> gate = {1e30F, -1e30F, 3e38F, -3e38F};
  const std::vector<float> ones(4, 1.0F);
  for (const Activation act : kAll) {
    std::vector<float> y(4), dgate(4), dup(4);
    gated_unit(act, 4, gate.data(), ones.data(), y.data());
    gated_unit_backward(act, 4, gate.data(), ones.data(), ones.data(), dgate.data(), dup.data());
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(y[i], std::max(gate[i], 0.0F));
      EXPECT_EQ(dup[i], std::max(gate[i], 0.0F));
      EXPECT_EQ(dgate[i], gate[i] > 0.0F ? 1.0F : 0.0F);
    }
  }
}

TEST(GatedUnit, NaNIsNotHidden) {
  const std::vector<float> gate = {std::numeric_limits<float>::quiet_NaN()}, one = {1.0F};
  float y = 0.0F, dgate = 0.0F, dup = 0.0F;
  on_every_target([&] {
    for (const Activation act : kAll) {
      gated_unit(act, 1, gate.data(), one.data(), &y);
      gated_unit_backward(act, 1, gate.data(), one.data(), one.data(), &dgate, &dup);
      EXPECT_TRUE(std::isnan(y) && std::isnan(dgate) && std::isnan(dup));
    }
  });
}

TEST(GatedUnit, ThreadsDoNotChangeABit) {
  const Problem p(Activation::kSilu, random_values(20001, 1, 2.0F));
  std::vector<float> first(p.gate.size()), again(p.gate.size());
  set_threads(1);
  gated_unit(p.act, first.size(), p.gate.data(), p.up.data(), first.data());
  on_every_thread_count([&] {
    check(p);
    gated_unit(p.act, again.size(), p.gate.data(), p.up.data(), again.data());
    EXPECT_EQ(first, again);
  });
}

TEST(GatedUnit, WorksInPlace) {
  const Problem p(Activation::kGeluTanh, random_values(37, 1));
  PoisonedBuffer<float> gate(37), up(37);
  std::copy(p.gate.begin(), p.gate.end(), gate.begin());
  std::copy(p.up.begin(), p.up.end(), up.begin());
  gated_unit_backward(p.act, 37, gate.data(), up.data(), p.dy.data(), gate.data(), up.data());
  expect_near("dgate over gate", gate, p.dgate, [&](std::size_t i) { return p.dgate_bound(i); });
  expect_near("dup over up", up, p.dup, [&](std::size_t i) { return p.dup_bound(i); });
  std::copy(p.gate.begin(), p.gate.end(), gate.begin());
  gated_unit(p.act, 37, gate.data(), p.up.data(), gate.data());
  expect_near("y over gate", gate, p.y, [&](std::size_t i) { return p.y_bound(i); });
}

}  // namespace
}  // namespace darkformer::kernels::gated_unit_test
