// cross_entropy equals its reference: loss, lse, correct, dhidden and dweight by name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::cross_entropy_test {
namespace {

struct Case {
  std::size_t rows, E, V;
  StoredType type = StoredType::kFloat32;
  float softcap = 0.0F;
  float scale = 1.0F;  // of the hidden values: how sharp the softmax is
};

// Inputs of one case and their answer in double.
struct Fixture {
  Case c;
  std::vector<float> hidden, dloss, weight;
  std::vector<std::uint32_t> stored;
  std::vector<std::int64_t> targets;
  std::vector<double> loss, lse, dhidden, dweight;
  std::vector<std::uint8_t> correct;

  explicit Fixture(const Case& shape)
      : c(shape),
        hidden(random_values(c.rows * c.E, 1, c.scale)),
        dloss(random_values(c.rows, 2)),
        weight(random_values(c.V * c.E, 3, 0.5F)),
        stored(c.V * c.E + 1),
        targets(c.rows),
        loss(c.rows),
        lse(c.rows),
        dhidden(c.rows * c.E),
        dweight(c.V * c.E),
        correct(c.rows) {
    convert_from_float(weight.data(), c.type, weight.size(), stored.data());
    convert_to_float(stored.data(), c.type, weight.size(), weight.data());
    std::mt19937 generator(4);
    for (std::int64_t& target : targets) {
      target = generator() % 5 == 0 ? -100 : static_cast<std::int64_t>(generator() % c.V);
    }
    cross_entropy_ref(problem(), dloss.data(),
                      {loss.data(), lse.data(), correct.data(), dhidden.data(), dweight.data()});
  }
  CrossEntropyProblem problem() const {
    return {hidden.data(), c.rows, {stored.data(), c.type, c.V, c.E}, targets.data(), c.softcap};
  }
};

// How far float32 may be from the answer.
//   a logit:    its sum over E, and its cap                                     -> logit
//   lse, loss:  two logits, a sum of V exponentials, roundings of lse           -> loss
//   dl:         |dloss| (p + [target]) times the error of the exponent and of the cap's slope
//   dhidden, dweight: what dl passes on, and the sum over V or rows
struct Bounds {
  std::vector<double> logit, loss, dhidden, dweight, lead;

  explicit Bounds(const Fixture& f)
      : logit(f.c.rows),
        loss(f.c.rows),
        dhidden(f.dhidden.size()),
        dweight(f.dweight.size()),
        lead(f.c.rows) {
    for (std::size_t n = 0; n < f.c.rows; ++n) {
      const std::vector<double> logits = logits_of(f, n);
      loss[n] =
          2.0 * logit[n] + 4.0 * kEpsFloat * std::abs(f.lse[n]) + sum_bound(kEpsFloat, f.c.V, 1.0);
      if (f.targets[n] >= 0) {
        add_gradients(f, n, logits);
        lead[n] = lead_of(logits, static_cast<std::size_t>(f.targets[n]));
      }
    }
  }

 private:
  std::vector<double> logits_of(const Fixture& f, std::size_t n) {
    std::vector<double> logits(f.c.V, 0.0);
    double size = 0.0, largest = 0.0;
    for (std::size_t v = 0; v < f.c.V; ++v) {
      double sum = 0.0;
      for (std::size_t e = 0; e < f.c.E; ++e) {
        const double term = static_cast<double>(f.hidden[n * f.c.E + e]) * f.weight[v * f.c.E + e];
        logits[v] += term;
        sum += std::abs(term);
      }
      size = std::max(size, sum);
      const double cap = f.c.softcap;
      logits[v] = cap > 0.0 ? cap * std::tanh(logits[v] / cap) : logits[v];
      largest = std::max(largest, std::abs(logits[v]));
    }
    logit[n] = sum_bound(kEpsFloat, f.c.E, size) + 8.0 * kEpsFloat * largest;
    return logits;
  }
  void add_gradients(const Fixture& f, std::size_t n, const std::vector<double>& logits) {
    const double slope = f.c.softcap > 0.0F ? 2.0 * logit[n] / f.c.softcap : 0.0;
    const double relative = 2.0 * logit[n] + loss[n] + slope + 8.0 * kEpsFloat;
    for (std::size_t v = 0; v < f.c.V; ++v) {
      const double is_target = static_cast<std::int64_t>(v) == f.targets[n] ? 1.0 : 0.0;
      const double size = std::abs(f.dloss[n]) * (std::exp(logits[v] - f.lse[n]) + is_target);
      // A probability below the smallest float32 becomes 0.
      const double lost = std::abs(f.dloss[n]) * std::numeric_limits<float>::min();
      const double over_v = size * (relative + sum_bound(kEpsFloat, f.c.V, 1.0)) + lost;
      const double over_n = size * (relative + sum_bound(kEpsFloat, f.c.rows, 1.0)) + lost;
      for (std::size_t e = 0; e < f.c.E; ++e) {
        dhidden[n * f.c.E + e] += std::abs(f.weight[v * f.c.E + e]) * over_v;
        dweight[v * f.c.E + e] += std::abs(f.hidden[n * f.c.E + e]) * over_n;
      }
    }
  }
  // The target's logit less the largest of the others.
  static double lead_of(const std::vector<double>& logits, std::size_t target) {
    double best = -std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < logits.size(); ++v) {
      best = v == target ? best : std::max(best, logits[v]);
    }
    return logits[target] - best;
  }
};

void check(const Fixture& f, const Bounds& bounds) {
  PoisonedBuffer<float> loss(f.c.rows), lse(f.c.rows), dhidden(f.dhidden.size()),
      dweight(f.dweight.size());
  std::vector<std::uint8_t> correct(f.c.rows, 9);
  cross_entropy(f.problem(), {loss.data(), lse.data(), correct.data()});
  cross_entropy_backward(f.problem(), lse.data(), f.dloss.data(), {dhidden.data(), dweight.data()});
  const auto loss_bound = [&](std::size_t n) { return bounds.loss[n]; };
  expect_near("loss", loss, f.loss, loss_bound);
  expect_near("lse", lse, f.lse, loss_bound);
  expect_near("dhidden", dhidden, f.dhidden, [&](std::size_t i) { return bounds.dhidden[i]; });
  expect_near("dweight", dweight, f.dweight, [&](std::size_t i) { return bounds.dweight[i]; });
  for (std::size_t n = 0; n < f.c.rows; ++n) {
    if (f.targets[n] < 0) {
      ASSERT_EQ(loss[n], 0.0F);
    }
    if (f.targets[n] < 0 || std::abs(bounds.lead[n]) > 2.0 * bounds.logit[n]) {
      ASSERT_EQ(correct[n], f.correct[n]) << "correct at " << n;
    }
  }
}

void check(const Case& c) {
  SCOPED_TRACE(::testing::Message() << "rows " << c.rows << " E " << c.E << " V " << c.V << " type "
                                    << static_cast<int>(c.type) << " softcap " << c.softcap);
  const Fixture fixture(c);
  check(fixture, Bounds(fixture));
}

TEST(CrossEntropy, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t rows : {1, 3, 17}) {
      for (const std::size_t V : {1, 2, 15, 16, 17, 65}) {
        check({rows, 5, V});
        check({rows, 33, V, StoredType::kBfloat16, 30.0F, 3.0F});
      }
    }
  });
}

TEST(CrossEntropy, EqualsReferenceAroundABlock) {
  const std::size_t rows = CrossEntropyBlock::kRows, columns = CrossEntropyBlock::kColumns;
  for (const std::size_t around : {rows - 1, rows, rows + 1}) {
    check({around, 3, 20});
  }
  for (const std::size_t around : {columns - 1, columns, columns + 1, 3 * columns + 7}) {
    check({7, 6, around, StoredType::kFloat16, 5.0F});
  }
  check({rows + 3, 4, columns + 5});
}

TEST(CrossEntropy, EqualsReferenceOnEveryThreadCount) {
  const Fixture fixture({40, 16, 2100, StoredType::kBfloat16, 30.0F, 2.0F});
  const Bounds bounds(fixture);
  on_every_thread_count([&] { check(fixture, bounds); });
}

TEST(CrossEntropy, SharpAndFlatSoftmax) {
  check({20, 40, 600, StoredType::kFloat32, 0.0F, 30.0F});
  check({20, 40, 600, StoredType::kFloat32, 30.0F, 200.0F});  // capped hard
  check({20, 40, 600, StoredType::kFloat32, 0.0F, 0.0F});     // all equal: loss = log V
}

TEST(CrossEntropy, ThreadsDoNotChangeABit) {
  const Fixture f({30, 24, 3000});
  std::vector<std::vector<float>> runs;
  on_every_thread_count([&] {
    std::vector<float> loss(30), lse(30), dhidden(f.dhidden.size()), dweight(f.dweight.size());
    cross_entropy(f.problem(), {loss.data(), lse.data()});
    cross_entropy_backward(f.problem(), lse.data(), f.dloss.data(),
                           {dhidden.data(), dweight.data()});
    dhidden.insert(dhidden.end(), dweight.begin(), dweight.end());
    dhidden.insert(dhidden.end(), loss.begin(), loss.end());
    runs.push_back(dhidden);
  });
  for (const auto& run : runs) {
    EXPECT_EQ(run, runs.front());
  }
}

TEST(CrossEntropy, TheFirstOfEqualLogitsWins) {
  // hidden = 1, weight = its logit: words 2, 5 and one in a later chunk share the largest.
  std::vector<float> weight(CrossEntropyBlock::kColumns + 10, 0.0F);
  const auto later = static_cast<std::int32_t>(weight.size() - 3);
  weight[2] = weight[5] = weight[static_cast<std::size_t>(later)] = 3.0F;
  const std::vector<float> hidden(5, 1.0F);
  const std::vector<std::int32_t> targets = {2, 5, later, 0, -1};
  std::vector<float> loss(5), lse(5);
  std::vector<std::uint8_t> correct(5, 9);
  cross_entropy(
      {hidden.data(), 5, {weight.data(), StoredType::kFloat32, weight.size(), 1}, targets.data()},
      {loss.data(), lse.data(), correct.data()});
  EXPECT_EQ(correct, (std::vector<std::uint8_t>{1, 0, 0, 0, 0}));
}

TEST(CrossEntropy, AddsToDweightOnRequestAndSkipsWhatIsNotAsked) {
  const Fixture f({9, 8, 30});
  const Bounds bounds(f);
  PoisonedBuffer<float> loss(9), lse(9), dweight(f.dweight.size()), dhidden(f.dhidden.size());
  cross_entropy(f.problem(), {loss.data(), lse.data()});
  std::fill(dweight.begin(), dweight.end(), 0.0F);
  for (int time = 0; time < 2; ++time) {
    cross_entropy_backward(f.problem(), lse.data(), f.dloss.data(),
                           {nullptr, dweight.data(), true});
  }
  std::vector<double> twice = f.dweight;
  for (double& value : twice) {
    value *= 2.0;
  }
  expect_near("dweight twice", dweight, twice,
              [&](std::size_t i) { return 2.0 * bounds.dweight[i]; });
  cross_entropy_backward(f.problem(), lse.data(), f.dloss.data(), {dhidden.data(), nullptr});
  expect_near("dhidden alone", dhidden, f.dhidden,
              [&](std::size_t i) { return bounds.dhidden[i]; });
}

TEST(CrossEntropy, NoRowsGiveNoGradientAndNaNIsNotHidden) {
  Fixture f({2, 3, 7});
  PoisonedBuffer<float> dweight(21);
  CrossEntropyProblem empty = f.problem();
  empty.rows = 0;
  cross_entropy_backward(empty, nullptr, nullptr, {nullptr, dweight.data()});
  EXPECT_TRUE(std::all_of(dweight.begin(), dweight.end(), [](float v) { return v == 0.0F; }));
  f.hidden[1] = std::nanf("");
  f.targets = {1, 1};
  std::vector<float> loss(2), lse(2);
  std::vector<std::uint8_t> correct(2, 9);
  cross_entropy(f.problem(), {loss.data(), lse.data(), correct.data()});
  EXPECT_TRUE(std::isnan(loss[0]) && std::isnan(lse[0]));
  EXPECT_EQ(correct[0], 0);
  EXPECT_FALSE(std::isnan(loss[1]));
}

}  // namespace
}  // namespace darkformer::kernels::cross_entropy_test
