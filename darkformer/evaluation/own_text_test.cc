// A model's own text: what decides it, where sequences end, and that it goes on after any stop.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/own_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::own_text_test {
namespace {

using Sequences = std::vector<std::vector<std::int64_t>>;

struct Stop {};

class OwnText : public ::testing::Test {
 protected:
  OwnText() {
    ModelConfig config = small_config(Family::kGemma3);
    config.attention[1] = small_dark_spec();
    model_ = small_decoder(config);
  }

  // Stops after so many steps, if that is not negative.
  Sequences write(const OwnTextOptions& options, Sequences before = {}, int steps = -1) {
    std::vector<std::int64_t> done;
    for (const auto& ids : before) {
      done.push_back(std::ssize(ids));
    }
    try {
      write_own_text(
          *model_, options, done,
          [&](std::int64_t sequence, const std::vector<std::int64_t>& ids) {
            EXPECT_EQ(sequence, std::ssize(before));
            before.push_back(ids);
          },
          [&](std::int64_t tokens) {
            watched_.push_back(tokens);
            if (steps-- == 0) {
              throw Stop();
            }
          });
    } catch (const Stop&) {
    }
    return before;
  }

  static std::int64_t tokens_of(const Sequences& sequences) {
    return std::accumulate(sequences.begin(), sequences.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& ids) { return sum + std::ssize(ids); });
  }

  // Ends come after about ten tokens: 6 of 61 ids, at a temperature that makes all likely.
  static OwnTextOptions ending() {
    return {.tokens = 300,
            .batch = 4,
            .context = 24,
            .sampler = {.temperature = 5, .seed = 3},
            .start = {2},
            .end_ids = {1, 7, 11, 23, 40, 52}};
  }

  std::shared_ptr<Decoder> model_;
  std::vector<std::int64_t> watched_;
};

TEST_F(OwnText, SequencesEndAtAnEndIdOrAtTheContext) {
  const OwnTextOptions options = ending();
  const Sequences sequences = write(options);
  EXPECT_EQ(tokens_of(sequences), 300);
  EXPECT_EQ(watched_.back(), 300);
  EXPECT_TRUE(std::is_sorted(watched_.begin(), watched_.end()));
  std::set<std::size_t> lengths;
  for (const auto& ids : sequences) {
    EXPECT_GE(ids.size(), 1U);
    EXPECT_LE(ids.size(), 23U);  // the start is one of 24
    lengths.insert(ids.size());
    for (const std::int64_t end : options.end_ids) {
      EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 0);
    }
  }
  EXPECT_TRUE(lengths.contains(23));
  EXPECT_GT(lengths.size(), 5U);
}

TEST_F(OwnText, ASequenceIsTheSameInEveryBatchAndOnEveryNumberOfThreads) {
  OwnTextOptions options = ending();
  const Sequences want = write(options);
  for (const std::int64_t batch : {1, 3, 7, 16}) {
    options.batch = batch;
    EXPECT_EQ(write(options), want) << batch;
  }
  const int before = threads();
  set_threads(before == 1 ? 2 : 1);
  EXPECT_EQ(write(options), want);
  set_threads(before);
}

TEST_F(OwnText, MoreTokensBeginWithFewer) {
  OwnTextOptions options = ending();
  const Sequences many = write(options);
  for (const std::int64_t tokens : {1, 2, 50, 151}) {
    options.tokens = tokens;
    const Sequences few = write(options);
    EXPECT_EQ(tokens_of(few), tokens);
    for (std::size_t i = 0; i < few.size(); ++i) {
      ASSERT_LE(few[i].size(), many[i].size());
      EXPECT_TRUE(std::equal(few[i].begin(), few[i].end(), many[i].begin()));
      EXPECT_TRUE(i + 1 == few.size() || few[i].size() == many[i].size());
    }
  }
}

TEST_F(OwnText, SeedsAndSequencesDiffer) {
  OwnTextOptions options = ending();
  const Sequences want = write(options);
  EXPECT_EQ(write(options), want);
  EXPECT_NE(want[0], want[1]);
  options.sampler.seed = 4;
  EXPECT_NE(write(options), want);
}

TEST_F(OwnText, GoesOnAfterAnyStop) {
  for (const std::int64_t batch : {4, 20}) {  // 20: products depend on the number of rows
    OwnTextOptions options = ending();
    options.batch = batch;
    const Sequences want = write(options);
    for (const int steps : {0, 5, 23, 24, 30, 60}) {
      EXPECT_EQ(write(options, write(options, {}, steps)), want) << steps;
    }
    // Handed over in part: a kill while the sequences of a round were written.
    for (const std::size_t known : {std::size_t{1}, std::size_t{6}, want.size() - 1, want.size()}) {
      const Sequences part(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(known));
      EXPECT_EQ(write(options, part), want) << known;
    }
  }
}

// Rows decide how products are rounded, so that a round must have the rows it had.
TEST_F(OwnText, ARoundThatWasHandedOverInPartIsSampledWhole) {
  const OwnTextOptions options = ending();
  const Sequences want = write(options);
  const Sequences round(want.begin(), want.begin() + 4);
  watched_.clear();
  write(options, Sequences(want.begin(), want.begin() + 6), 0);
  EXPECT_EQ(watched_.front(), tokens_of(round) + options.batch);
}

TEST_F(OwnText, StartsCount) {
  OwnTextOptions options = ending();
  options.start = {2, 30, 31, 32, 33};
  for (const auto& ids : write(options)) {
    EXPECT_LE(ids.size(), 19U);
  }
  options.batch = 1;
  const Sequences want = write(options);
  options.batch = 16;
  EXPECT_EQ(write(options), want);
}

// Otherwise a model that ends every text at once would be sampled for ever.
TEST_F(OwnText, NoSequenceIsEmpty) {
  OwnTextOptions options = ending();
  options.tokens = 40;
  options.end_ids.clear();
  for (std::int64_t id = 0; id < 60; ++id) {
    options.end_ids.push_back(id);
  }
  for (const auto& ids : write(options)) {
    EXPECT_EQ(ids.front(), 60);
  }
}

TEST_F(OwnText, RefusesWhatMakesNoSense) {
  const auto refuses = [&](const std::function<void(OwnTextOptions&)>& change) {
    OwnTextOptions options = ending();
    change(options);
    EXPECT_THROW(write(options), Error);
  };
  refuses([](auto& o) { o.start.clear(); });
  refuses([](auto& o) { o.start.assign(24, 2); });
  refuses([](auto& o) { o.start = {61}; });
  refuses([](auto& o) { o.end_ids = {-1}; });
  refuses([](auto& o) { o.tokens = 0; });
  refuses([](auto& o) { o.batch = 0; });
  refuses([](auto& o) { o.sampler.temperature = 0; });
}

}  // namespace
}  // namespace darkformer::own_text_test
