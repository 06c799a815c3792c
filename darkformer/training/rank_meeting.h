// Where ranks meet before they can compute together: a store all of them can ask. Needs Gloo.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "darkformer/training/rank_place.h"

namespace c10d {
class Store;
}

namespace darkformer {

// c10d tells of every try to reach a machine that is not up yet, and of failures that we tell of.
void silence_c10d();

// Every waiting ends with Interrupted after a signal, and with Error when another rank has refused
// to work with us; what c10d throws when a connection breaks, or std::runtime_error after too long,
// is the caller's.
class RankMeeting {
 public:
  // Waits for the meeting point, ten minutes or the time limit if that is longer, and agrees on the
  // number of ranks. Error: it cannot be reached, is something else, or the numbers differ.
  RankMeeting(const RankPlace& place, std::chrono::milliseconds timeout);

  // To all, once and for ever.
  void tell(const std::string& word);
  // Until somebody has told it; `what` is for the log.
  void wait_for(const std::string& word, const std::string& what);
  void wait_for_all_ranks();

  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  RankPlace place_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace darkformer
