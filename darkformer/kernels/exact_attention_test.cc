// Exact attention equals its reference: outputs and every gradient, on every instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/exact_attention.h"

#include "darkformer/kernels/exact_attention_testing.h"

namespace darkformer::kernels::exact_attention_test {
namespace {

class ExactAttentionShapes : public ::testing::TestWithParam<ShapeLine> {};

TEST_P(ExactAttentionShapes, EqualsReference) {
  const Problem problem(exact_attention_shape(GetParam()));
  const Reference want = reference(problem);
  const Bounds bounds(problem);
  on_every_target([&] { expect_all_near(run(problem), want, bounds); });
  expect_all_near(run(problem, false), reference(problem, false), bounds);
}

// Large problems are for the benchmark: the reference is quadratic.
std::vector<ShapeLine> small_shapes() {
  std::vector<ShapeLine> shapes = read_shapes(DARKFORMER_SHAPES "/exact_attention.txt");
  std::erase_if(shapes, [](const ShapeLine& line) { return line.flag("large"); });
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Files,
                         ExactAttentionShapes,
                         ::testing::ValuesIn(small_shapes()),
                         [](const auto& info) { return info.param.id(); });

// The reference's gradients against differences of fourth order of its own outputs.
double loss(const Problem& p) {
  const Reference r = reference(p);
  double sum = 0.0;
  for (std::size_t i = 0; i < r.o.size(); ++i) {
    sum += r.o[i] * p.d_o[i];
  }
  for (std::size_t i = 0; i < r.lse.size(); ++i) {
    sum += std::isinf(r.lse[i]) ? 0.0 : r.lse[i] * p.d_lse[i];
  }
  return sum;
}

void expect_derivative(const Problem& at,
                       Values Problem::*input,
                       const std::vector<double>& gradient) {
  Problem p = at;
  constexpr float kStep = 1.0F / 64;  // the error is about kStep^4 = 6e-8 times a fifth derivative
  Values& x = p.*input;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float middle = x[i];
    double difference = 0.0;
    for (const auto& [steps, weight] :
         {std::pair{1.0F, 8.0}, {-1.0F, -8.0}, {2.0F, -1.0}, {-2.0F, 1.0}}) {
      x[i] = middle + steps * kStep;
      difference += weight * loss(p) / (12.0 * kStep);
    }
    x[i] = middle;
    EXPECT_NEAR(difference, gradient[i], 1e-5) << i;
  }
}

TEST(ExactAttentionRef, GradientsAreDerivatives) {
  for (const char* shape :
       {"B1 H2 G1 T4 S4 D3 V2", "B1 H1 G1 T5 S3 D2", "B1 H1 G1 T3 S5 D2 full cap2",
        "B1 H1 G1 T6 S6 D2 window2 sinks1 cap3"}) {
    Problem problem(exact_attention_shape(ShapeLine(shape)));
    for (auto* values : {&problem.q, &problem.k, &problem.v}) {
      for (float& value : *values) {  // multiples of the step: every step is exact
        value = std::round(value * 64) / 64;
      }
    }
    const Reference r = reference(problem);
    SCOPED_TRACE(shape);
    expect_derivative(problem, &Problem::q, r.dq);
    expect_derivative(problem, &Problem::k, r.dk);
    expect_derivative(problem, &Problem::v, r.dv);
  }
}

}  // namespace
}  // namespace darkformer::kernels::exact_attention_test
