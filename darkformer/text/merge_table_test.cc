// Merging by a list against a plain loop that looks at all neighbours every time.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace darkformer::merge_table_test {
namespace {

using Ids = std::vector<std::int32_t>;
using Pair = std::pair<std::int32_t, std::int32_t>;

void merge_plainly(const std::map<Pair, MergeTable::Merge>& merges, Ids& symbols) {
  for (;;) {
    std::size_t best = symbols.size();
    std::uint32_t rank = MergeTable::kNever;
    for (std::size_t i = 1; i < symbols.size(); ++i) {
      const auto found = merges.find({symbols[i - 1], symbols[i]});
      if (found != merges.end() && found->second.rank < rank) {
        best = i - 1;
        rank = found->second.rank;
      }
    }
    if (best == symbols.size()) {
      return;
    }
    symbols[best] = merges.at({symbols[best], symbols[best + 1]}).id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, MergesAsAPlainLoopDoes) {
  std::mt19937 random(3);
  constexpr int kLetters = 4;
  std::map<Pair, MergeTable::Merge> merges;
  MergeTable table(300);
  std::int32_t next = kLetters;
  for (std::uint32_t rank = 0; rank < 300; ++rank) {
    const Pair pair(static_cast<std::int32_t>(random() % static_cast<unsigned>(next)),
                    static_cast<std::int32_t>(random() % static_cast<unsigned>(next)));
    merges[pair] = {rank, next};  // the same pair again: the later rank counts
    table.add(pair.first, pair.second, {rank, next});
    ++next;
  }
  MergeRun run(table);
  for (const std::size_t length : {0, 1, 2, 3, 7, 31, 32, 33, 64, 500}) {
    for (int i = 0; i < 50; ++i) {
      Ids symbols(length);
      for (std::int32_t& symbol : symbols) {
        symbol = static_cast<std::int32_t>(random() % kLetters);
      }
      Ids wanted = symbols;
      merge_plainly(merges, wanted);
      run.run(symbols);
      ASSERT_EQ(symbols, wanted) << length;
    }
  }
}

TEST(MergeTable, LongRunsTakeLittleTime) {
  MergeTable table(20);
  for (std::int32_t id = 0; id < 20; ++id) {
    table.add(id, id, {static_cast<std::uint32_t>(id), id + 1});
  }
  Ids symbols(1 << 20, 0);
  MergeRun(table).run(symbols);
  EXPECT_EQ(symbols, Ids{20});
}

}  // namespace
}  // namespace darkformer::merge_table_test
