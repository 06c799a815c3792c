// Several processes that train one model together: who they are, and sums over all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/training/rank_place.h"

namespace darkformer {

// Another rank is gone or does not answer. The work cannot go on; the process should end at once,
// without waiting for sums that are under way.
class RankLost : public Error {
 public:
  using Error::Error;
};

// Does this build have collectives? Without Gloo's headers it has not, and Ranks::join fails.
bool has_collectives();

// The meeting point, for a launcher. It lives as long as the ranks need it.
class RankStore {
 public:
  RankStore();
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;
  std::uint16_t port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// One of the ranks. All ranks make the same calls in the same order. Sums are taken in an order
// that depends on the number of ranks alone, and all ranks get the same bits. One thread.
class Ranks {
 public:
  // Waits for the meeting point, ten minutes or the time limit if that is longer. Error: it cannot
  // be reached.
  static std::shared_ptr<Ranks> join(const RankPlace& place, std::chrono::milliseconds timeout);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return place_.rank; }
  int size() const { return place_.ranks; }
  bool is_first() const { return place_.rank == 0; }

  // Before the first sum, for work that takes long (reading texts): runs it on rank 0, or on the
  // first rank of each machine, and then on the others, which find what the first ones left.
  void after_the_first(const std::function<void()>& work);
  void after_the_first_here(const std::function<void()>& work);

  // values <- sum over the ranks. RankLost: after the time limit, or when a connection breaks.
  void sum(std::vector<double>& values);
  // The same for a contiguous tensor, in the background; the result waits and throws RankLost.
  std::function<void()> start_sum(const at::Tensor& values);
  // The number of rank 0.
  std::int64_t from_first(std::int64_t number);
  // Error naming `what` where the ranks have different numbers.
  void require_equal(std::uint64_t number, const std::string& what);

 private:
  struct Parts;
  explicit Ranks(const RankPlace& place, std::chrono::milliseconds timeout);
  void in_turn(const std::string& name, bool first, const std::function<void()>& work);
  void connect();
  [[noreturn]] void lost(const std::string& reason) const;

  RankPlace place_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace darkformer
