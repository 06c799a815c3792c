// Merges in an open hash table; short words are scanned, long ones use a heap.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/merge_table.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace darkformer {
namespace {

constexpr std::size_t kShortWord = 32;  // in symbols; n scans of n ranks beat a heap up to here

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t merges) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(2 * merges, 16));
  slots_.resize(slots);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
}

// Where the key stands, or the free place where it would.
std::size_t MergeTable::slot_of(std::uint64_t key) const {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads well
  std::size_t at = (key ^ key >> 32) * kGolden >> shift_;
  while (slots_[at].key != key && slots_[at].key != kFree) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return at;
}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  assert(left >= 0 && right >= 0);
  const std::uint64_t key = pair_key(left, right);
  slots_[slot_of(key)] = {key, merge};
}

MergeTable::Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

void MergeRun::run(std::vector<std::int32_t>& symbols) {
  if (symbols.size() <= kShortWord) {
    run_short(symbols);
  } else {
    run_long(symbols);
  }
}

void MergeRun::run_short(std::vector<std::int32_t>& symbols) {
  merges_.clear();
  for (std::size_t i = 1; i < symbols.size(); ++i) {
    merges_.push_back(table_.find(symbols[i - 1], symbols[i]));
  }
  while (!merges_.empty()) {
    const auto best = std::min_element(merges_.begin(), merges_.end(),
                                       [](auto& a, auto& b) { return a.rank < b.rank; });
    if (best->rank == MergeTable::kNever) {
      return;
    }
    const auto at = best - merges_.begin();
    symbols[static_cast<std::size_t>(at)] = best->id;
    symbols.erase(symbols.begin() + at + 1);
    merges_.erase(best);
    const auto left = static_cast<std::size_t>(at);
    if (left > 0) {
      merges_[left - 1] = table_.find(symbols[left - 1], symbols[left]);
    }
    if (left < merges_.size()) {
      merges_[left] = table_.find(symbols[left], symbols[left + 1]);
    }
  }
}

void MergeRun::propose(int left) {
  if (left < 0 || nodes_[left].next < 0) {
    return;
  }
  const auto merge = table_.find(nodes_[left].id, nodes_[nodes_[left].next].id);
  if (merge.rank != MergeTable::kNever) {
    heap_.push_back({merge.rank, left, merge.id});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

void MergeRun::run_long(std::vector<std::int32_t>& symbols) {
  nodes_.clear();
  heap_.clear();
  const int count = static_cast<int>(symbols.size());
  for (int i = 0; i < count; ++i) {
    nodes_.push_back({symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int i = 0; i + 1 < count; ++i) {
    propose(i);
  }
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate top = heap_.back();
    heap_.pop_back();
    Node& left = nodes_[top.left];
    if (left.id < 0 || left.next < 0) {
      continue;
    }
    Node& right = nodes_[left.next];
    const auto merge = table_.find(left.id, right.id);
    if (merge.rank != top.rank || merge.id != top.id) {
      continue;  // one of the two was joined to somebody else since
    }
    left.id = top.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      nodes_[left.next].previous = top.left;
    }
    propose(left.previous);
    propose(top.left);
  }
  symbols.clear();
  for (int i = 0; i >= 0; i = nodes_[i].next) {
    symbols.push_back(nodes_[i].id);
  }
}

}  // namespace darkformer
