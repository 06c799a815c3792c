// Rank correlations that are known, and lists that have none.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/rank_correlation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "darkformer/base/error.h"

namespace darkformer::estimators::rank_correlation_test {
namespace {

using Values = std::vector<double>;

TEST(RankCorrelation, SeesOrderAndNothingElse) {
  const Values x = {1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(rank_correlation(x, Values{1, 10, 100, 1e4, 1e300}), 1.0);
  EXPECT_DOUBLE_EQ(rank_correlation(x, Values{5, 4, 3, 2, -7}), -1.0);
  // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = (0, 1, -1, 1, -1)
  EXPECT_DOUBLE_EQ(rank_correlation(x, Values{1, 3, 2, 5, 4}), 1.0 - 6.0 * 4.0 / (5.0 * 24.0));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_DOUBLE_EQ(rank_correlation(x, Values{-inf, 0, 1, 2, inf}), 1.0);
}

TEST(RankCorrelation, TiesShareTheirRank) {
  // ranks 0.5 0.5 2 3 against 0 1 2 3: 4.5 / sqrt(4.5 * 5)
  EXPECT_DOUBLE_EQ(rank_correlation(Values{1, 1, 2, 3}, Values{1, 2, 3, 4}),
                   4.5 / std::sqrt(4.5 * 5.0));
  EXPECT_EQ(rank_correlation(Values{1, 1, 1}, Values{1, 2, 3}), 0.0);
}

TEST(RankCorrelation, RefusesWhatHasNoRank) {
  EXPECT_THROW(rank_correlation(Values{1, 2}, Values{1, 2, 3}), Error);
  EXPECT_THROW(rank_correlation(Values{1}, Values{1}), Error);
  EXPECT_THROW(rank_correlation(Values{1, std::nan("")}, Values{1, 2}), Error);
}

}  // namespace
}  // namespace darkformer::estimators::rank_correlation_test
