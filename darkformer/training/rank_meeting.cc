// A TCPStore, asked from a thread that may be left alone with a question nobody answers.
// SPDX-License-Identifier: Apache-2.0
#ifdef DARKFORMER_GLOO
#include "darkformer/training/rank_meeting.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <functional>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "darkformer/base/first_line.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"

namespace darkformer {
namespace {

using std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

// Reading and tokenising texts may take hours, and nobody answers meanwhile.
constexpr std::chrono::hours kPreparationLimit{12};

// Machines do not start at the same moment.
constexpr std::chrono::minutes kJoiningLimit{10};

constexpr milliseconds kTry{2000}, kGlance{20}, kToldAfter{60000};

// Waiting for others, as the log and Ctrl-C see it.
class Patience {
 public:
  Patience(const RankPlace& place, std::string what, milliseconds until_told)
      : place_(place), what_(std::move(what)), until_told_(until_told) {}

  milliseconds passed() const {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
  }
  // Between two looks.
  void check() {
    if (interrupted()) {
      throw Interrupted(concat(rank_name(place_), ": stopped while it waited for ", what_));
    }
    if (!told_ && passed() > until_told_) {
      told_ = true;
      log_warning(rank_name(place_), " has waited for ", what_, " for ", until_told_.count() / 1000,
                  " s and goes on waiting");
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  const RankPlace& place_;
  std::string what_;
  milliseconds until_told_;
  Clock::time_point start_ = Clock::now();
  bool told_ = false;
};

// One try of the store ends after kTry: a signal that comes meanwhile must not wait for the limit.
Store open_store(const RankPlace& place, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && !place.store_given;
  options.waitWorkers = false;
  options.timeout = kTry;
  const milliseconds limit = std::max<milliseconds>(timeout, kJoiningLimit);
  const std::string address = meeting_address(place);
  Patience patience(place, "rank 0 at " + address, std::min(timeout, kToldAfter));
  while (true) {
    try {
      auto store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
      store->setTimeout(limit);
      return store;
    } catch (const std::exception& error) {
      require(!options.isServer && patience.passed() < limit, rank_name(place),
              options.isServer ? ": cannot listen at " : ": cannot reach rank 0 at ", address, ": ",
              first_line(error.what()));
    }
    patience.check();
    std::this_thread::sleep_for(kGlance);
  }
}

// Does the work in a thread of its own: c10d reads answers without a limit, and hears no signal.
// A thread that still waits for an answer when we give up is left to the end of the process; one
// that only looks again and again hears the signal too. std::runtime_error: in vain.
void ask(std::function<void()> work, Patience patience, milliseconds limit) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> answer = task.get_future();
  std::thread(std::move(task)).detach();
  while (answer.wait_for(kGlance) != std::future_status::ready && !interrupted()) {
    if (patience.passed() > limit) {
      throw std::runtime_error("timed out");
    }
    patience.check();
  }
  if (interrupted()) {
    answer.wait_for(5 * kGlance);  // so that it does not meet the end of the program
  }
  patience.check();
  answer.get();
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

constexpr const char* kRefused = "refused";  // why a rank will not work with the others

// By looking again and again.
void look_for(c10d::Store& store, const std::string& key) {
  while (!store.check({key})) {
    if (interrupted()) {
      throw Interrupted("stopped");
    }
    if (store.check({kRefused})) {
      throw Error(text_of(store, kRefused));
    }
    std::this_thread::sleep_for(kGlance);
  }
}

[[noreturn]] void refuse(c10d::Store& store, const std::string& reason) {
  store.set(kRefused, bytes_of(reason));
  throw Error(reason);
}

// The first rank says how many there are; the others believe the same.
void agree_on_number(c10d::Store& store, const RankPlace& place) {
  const std::string own = std::to_string(place.ranks);
  if (place.rank == 0) {
    store.set("ranks", bytes_of(own));
    return;
  }
  look_for(store, "ranks");
  const std::string others = text_of(store, "ranks");
  if (own != others) {
    refuse(store,
           concat("WORLD_SIZE is ", own, " for rank ", place.rank, " and ", others, " for rank 0"));
  }
}

void agree_on_ranks(c10d::Store& store, const RankPlace& place) {
  agree_on_number(store, place);
  if (store.add(concat("rank-", place.rank), 1) > 1) {
    refuse(store, concat("RANK is ", place.rank, " for two processes; each needs its own"));
  }
}

// torchrun starts the ranks again after a failure, at the same meeting point.
Store store_of_this_round(const RankPlace& place, milliseconds timeout) {
  const std::string round = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return c10::make_intrusive<c10d::PrefixStore>("darkformer/" + round, open_store(place, timeout));
}

}  // namespace

void silence_c10d() {
  static const bool once = [] {
#ifdef C10_USE_GLOG
    FLAGS_minloglevel = std::max(FLAGS_minloglevel, static_cast<int>(google::GLOG_FATAL));
#else
    FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, 3);  // fatal
#endif
    return true;
  }();
  static_cast<void>(once);
}

RankMeeting::RankMeeting(const RankPlace& place, milliseconds timeout) : place_(place) {
  silence_c10d();
  store_ = store_of_this_round(place, timeout);
  const std::string address = meeting_address(place);
  try {
    ask([store = store_, place] { agree_on_ranks(*store, place); },
        {place_, "an answer of rank 0 at " + address, std::min(timeout, kToldAfter)},
        std::max<milliseconds>(timeout, kJoiningLimit));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(rank_name(place), ": what listens at ", address,
         " does not answer as rank 0 does; is it another program, or a rank that has ended?");
  }
}

void RankMeeting::tell(const std::string& word) {
  store_->set(word, bytes_of("yes"));
}

void RankMeeting::wait_for(const std::string& word, const std::string& what) {
  ask([store = store_, word] { look_for(*store, word); }, {place_, what, kToldAfter},
      kPreparationLimit);
}

void RankMeeting::wait_for_all_ranks() {
  ask(
      [store = store_, ranks = place_.ranks] {
        if (store->add("arrived", 1) == ranks) {
          store->set("all", bytes_of("yes"));
        }
        look_for(*store, "all");
      },
      {place_, "the others", kToldAfter}, kPreparationLimit);
}

}  // namespace darkformer

#endif
