// Byte-pair encoding by a list of merges: which two neighbours join, in which order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace darkformer {

class MergeTable {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  struct Merge {
    std::uint32_t rank = kNever;  // of all possible merges the one with the lowest rank comes first
    std::int32_t id = -1;         // what the two become
  };

  explicit MergeTable(std::size_t merges);

  // A pair that is given again takes the later rank. Fewer pairs than the constructor was told.
  void add(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_;
  unsigned shift_ = 0;
};

// The merging itself, with the memory it needs. For one thread.
class MergeRun {
 public:
  explicit MergeRun(const MergeTable& table) : table_(table) {}

  // symbols <- what is left of them when no neighbours join any more. Of equal ranks the leftmost
  // goes first. Time n log n.
  void run(std::vector<std::int32_t>& symbols);

 private:
  struct Node {
    std::int32_t id;  // -1: joined into its left neighbour
    int previous;
    int next;
  };
  struct Candidate {
    std::uint32_t rank;
    int left;
    std::int32_t id;

    bool operator<(const Candidate& other) const {
      return rank > other.rank || (rank == other.rank && left > other.left);
    }
  };

  void run_short(std::vector<std::int32_t>& symbols);
  void run_long(std::vector<std::int32_t>& symbols);
  void propose(int left);

  const MergeTable& table_;
  std::vector<MergeTable::Merge> merges_;  // of each symbol with the next
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace darkformer
