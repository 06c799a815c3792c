// Ranks over c10d: a TCPStore to meet at, Gloo for the sums.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/data_parallel.h"

#include <ATen/ops/empty.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <future>
#include <string_view>
#include <thread>

#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"

#ifdef DARKFORMER_GLOO
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace darkformer {
namespace {

using std::chrono::milliseconds;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int> number(const char* name, int minimum) {
  const auto text = variable(name);
  if (!text) {
    return std::nullopt;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  require(error == std::errc() && end == text->data() + text->size() && value >= minimum, name,
          " is '", *text, "'; wanted a number of at least ", minimum);
  return value;
}

std::string needed(const char* name, int ranks) {
  const auto value = variable(name);
  require(value.has_value(), name, " is not set, but WORLD_SIZE says that there are ", ranks,
          " ranks; they meet at MASTER_ADDR:MASTER_PORT");
  return *value;
}

}  // namespace

std::optional<RankPlace> rank_place() {
  const auto rank = number("RANK", 0), ranks = number("WORLD_SIZE", 1);
  if (!rank && !ranks) {
    return std::nullopt;
  }
  require(rank && ranks, "RANK and WORLD_SIZE belong together, but only ",
          rank ? "RANK" : "WORLD_SIZE", " is set");
  require(*rank < *ranks, "RANK is ", *rank, ", but WORLD_SIZE is ", *ranks);
  if (*ranks == 1) {
    return std::nullopt;
  }
  RankPlace place{.rank = *rank, .ranks = *ranks, .host = needed("MASTER_ADDR", *ranks)};
  needed("MASTER_PORT", *ranks);
  const int port = *number("MASTER_PORT", 1);
  require(port <= 65535, "MASTER_PORT is ", port, "; wanted at most 65535");
  place.port = static_cast<std::uint16_t>(port);
  place.local_rank = number("LOCAL_RANK", 0).value_or(0);
  place.local_ranks = number("LOCAL_WORLD_SIZE", 1).value_or(1);
  place.store_given = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return place;
}

#ifdef DARKFORMER_GLOO

namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

// Reading and tokenising texts may take hours, and nobody answers meanwhile.
constexpr std::chrono::hours kPreparationLimit{12};

// Machines do not start at the same moment.
constexpr std::chrono::minutes kJoiningLimit{10};

constexpr milliseconds kTry{2000}, kGlance{20}, kToldAfter{60000};

// c10d tells of every try to reach a machine that is not up yet, and of failures that we tell of.
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

std::string first_line(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

// This machine's address on the way to the meeting point: with several networks, the name of the
// machine says little about which one the others are on.
std::string own_address(const RankPlace& place) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(place.port);
  require(getaddrinfo(place.host.c_str(), port.c_str(), &wanted, &found) == 0, "MASTER_ADDR '",
          place.host, "' is not the name or address of a machine");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> held(found, freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int handle = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (handle < 0) {
      continue;
    }
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    // Connecting a datagram socket sends nothing; it asks for the route.
    const bool known = connect(handle, at->ai_addr, at->ai_addrlen) == 0 &&
                       getsockname(handle, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                       getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text,
                                   nullptr, 0, NI_NUMERICHOST) == 0;
    close(handle);
    if (known) {
      return text;
    }
  }
  fail("there is no way from this machine to MASTER_ADDR ", place.host);
}

// The interface can be named, as for PyTorch.
std::shared_ptr<gloo::transport::Device> gloo_device(const RankPlace& place) {
  const auto interface = variable("GLOO_SOCKET_IFNAME");
  if (!interface) {
    return c10d::ProcessGroupGloo::createDeviceForHostname(own_address(place));
  }
  try {
    return c10d::ProcessGroupGloo::createDeviceForInterface(*interface);
  } catch (const std::exception& error) {
    fail("GLOO_SOCKET_IFNAME is '", *interface, "', which cannot be used: ", first_line(error));
  }
}

std::string name_of(const RankPlace& place) {
  return concat("rank ", place.rank, " of ", place.ranks);
}

std::string address_of(const RankPlace& place) {
  return concat(place.host, ":", place.port);
}

milliseconds joining_limit(milliseconds timeout) {
  return std::max<milliseconds>(timeout, kJoiningLimit);
}

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
      throw Interrupted(concat(name_of(place_), ": stopped while it waited for ", what_));
    }
    if (!told_ && passed() > until_told_) {
      told_ = true;
      log_warning(name_of(place_), " has waited for ", what_, " for ", until_told_.count() / 1000,
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
  const milliseconds limit = joining_limit(timeout);
  const std::string address = address_of(place);
  Patience patience(place, "rank 0 at " + address, std::min(timeout, kToldAfter));
  while (true) {
    try {
      auto store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
      store->setTimeout(limit);
      return store;
    } catch (const std::exception& error) {
      require(!options.isServer && patience.passed() < limit, name_of(place),
              options.isServer ? ": cannot listen at " : ": cannot reach rank 0 at ", address, ": ",
              first_line(error));
    }
    patience.check();
    std::this_thread::sleep_for(kGlance);
  }
}

// Does the work in a thread of its own: c10d reads answers without a limit, and hears no signal.
// What is still waiting for one when we give up is left to the end of the process.
// std::runtime_error: in vain.
void ask(std::function<void()> work, Patience patience, milliseconds limit) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> answer = task.get_future();
  std::thread(std::move(task)).detach();
  while (answer.wait_for(kGlance) != std::future_status::ready) {
    if (patience.passed() > limit) {
      throw std::runtime_error("timed out");
    }
    patience.check();
  }
  answer.get();
}

constexpr const char* kRefused = "refused";  // why a rank will not work with the others

// By looking again and again. Error: another rank has refused.
void look_for(c10d::Store& store, const std::string& key) {
  while (!store.check({key})) {
    if (store.check({kRefused})) {
      const std::vector<std::uint8_t> reason = store.get(kRefused);
      throw Error(std::string(reason.begin(), reason.end()));
    }
    std::this_thread::sleep_for(kGlance);
  }
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

// The first rank says how many there are; the others believe the same.
void agree_on_ranks(c10d::Store& store, const RankPlace& place) {
  const std::string own = std::to_string(place.ranks);
  if (place.rank == 0) {
    store.set("ranks", bytes_of(own));
    return;
  }
  look_for(store, "ranks");
  const std::vector<std::uint8_t> said = store.get("ranks");
  const std::string others(said.begin(), said.end());
  if (own != others) {
    const std::string reason =
        concat("WORLD_SIZE is ", own, " for rank ", place.rank, " and ", others, " for rank 0");
    store.set(kRefused, bytes_of(reason));
    throw Error(reason);
  }
}

}  // namespace

bool has_collectives() {
  return true;
}

struct RankStore::Parts {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

RankStore::RankStore() : parts_(std::make_unique<Parts>()) {
  silence_c10d();
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  parts_->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}
RankStore::~RankStore() = default;

std::uint16_t RankStore::port() const {
  return parts_->store->getPort();
}

struct Ranks::Parts {
  Store store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

std::shared_ptr<Ranks> Ranks::join(const RankPlace& place, milliseconds timeout) {
  return std::shared_ptr<Ranks>(new Ranks(place, timeout));
}

Ranks::Ranks(const RankPlace& place, milliseconds timeout)
    : place_(place), timeout_(timeout), parts_(std::make_unique<Parts>()) {
  silence_c10d();
  // torchrun starts the ranks again after a failure, at the same meeting point.
  const std::string round = variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  parts_->store =
      c10::make_intrusive<c10d::PrefixStore>("darkformer/" + round, open_store(place, timeout));
  try {
    ask([store = parts_->store, place] { agree_on_ranks(*store, place); },
        {place_, "an answer of rank 0 at " + address_of(place), std::min(timeout, kToldAfter)},
        joining_limit(timeout));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(name_of(place), ": what listens at ", address_of(place),
         " does not answer as rank 0 does; is it another program, or a rank that has ended?");
  }
}
Ranks::~Ranks() = default;

void Ranks::lost(const std::string& reason) const {
  const bool late = reason.find("imed out") != std::string::npos;
  throw RankLost(concat(
      name_of(place_), ": another rank ",
      late ? concat("did not answer for ", timeout_.count() / 1000, " s") : std::string("is gone"),
      "; the run was stopped"));
}

void Ranks::in_turn(const std::string& name, bool first, const std::function<void()>& work) {
  if (first) {
    work();
  }
  try {
    if (first) {
      parts_->store->set(name, bytes_of("yes"));
    } else {
      ask([store = parts_->store, name] { look_for(*store, name); },
          {place_, "the first one to read the texts", kToldAfter}, kPreparationLimit);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    lost(error.what());
  }
  if (!first) {
    work();
  }
}

void Ranks::after_the_first(const std::function<void()>& work) {
  in_turn("first", is_first(), work);
}

void Ranks::after_the_first_here(const std::function<void()>& work) {
  // Ranks of a machine are neighbours.
  in_turn(concat("machine-of-", place_.rank - place_.local_rank), place_.local_rank == 0, work);
}

void Ranks::connect() {
  if (parts_->group) {
    return;
  }
  try {
    // All have to be there before the first of them starts to count seconds.
    ask(
        [store = parts_->store, ranks = place_.ranks] {
          if (store->add("arrived", 1) == ranks) {
            store->set("all", bytes_of("yes"));
          }
          look_for(*store, "all");
        },
        {place_, "the others", kToldAfter}, kPreparationLimit);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices.push_back(gloo_device(place_));
    options->threads = 2;
    parts_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(parts_->store, place_.rank,
                                                                place_.ranks, options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    lost(error.what());
  }
}

std::function<void()> Ranks::start_sum(const at::Tensor& values) {
  connect();
  std::vector<at::Tensor> tensors = {values};
  const auto work = parts_->group->allreduce(tensors);
  return [this, work] {
    try {
      work->wait();
    } catch (const std::exception& error) {
      lost(error.what());
    }
  };
}

#else  // without Gloo's headers

bool has_collectives() {
  return false;
}

struct RankStore::Parts {};
RankStore::RankStore() = default;
RankStore::~RankStore() = default;
std::uint16_t RankStore::port() const {
  return 0;
}

struct Ranks::Parts {};
std::shared_ptr<Ranks> Ranks::join(const RankPlace& place, milliseconds) {
  fail("this build has no Gloo (its headers were not found), so it cannot train with ", place.ranks,
       " ranks; install libgloo-dev and build again");
}
Ranks::~Ranks() = default;
void Ranks::after_the_first(const std::function<void()>& work) {
  work();
}
void Ranks::after_the_first_here(const std::function<void()>& work) {
  work();
}
std::function<void()> Ranks::start_sum(const at::Tensor&) {
  return [] {};
}

#endif

void Ranks::sum(std::vector<double>& values) {
  const at::Tensor all = at::empty({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), all.data_ptr<double>());
  start_sum(all)();
  std::copy_n(all.data_ptr<double>(), values.size(), values.begin());
}

std::int64_t Ranks::from_first(std::int64_t number) {
  const at::Tensor value = at::empty({1}, at::kLong);
  *value.data_ptr<std::int64_t>() = is_first() ? number : 0;
  start_sum(value)();
  return *value.data_ptr<std::int64_t>();
}

void Ranks::require_equal(std::uint64_t number, const std::string& what) {
  const auto mine = static_cast<std::int64_t>(number);
  // One place for each rank, so that everybody sees whose number it is.
  const at::Tensor all = at::empty({size()}, at::kLong);
  std::fill_n(all.data_ptr<std::int64_t>(), size(), 0);
  all.data_ptr<std::int64_t>()[rank()] = mine;
  start_sum(all)();
  for (int other = 1; other < size(); ++other) {
    require(all.data_ptr<std::int64_t>()[other] == all.data_ptr<std::int64_t>()[0], "rank ", other,
            " has other ", what, " than rank 0; all ranks need the same files and options");
  }
}

}  // namespace darkformer
