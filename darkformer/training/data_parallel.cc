// Ranks over c10d: sums by Gloo.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/data_parallel.h"

#include <ATen/ops/empty.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "darkformer/base/first_line.h"

#ifdef DARKFORMER_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "darkformer/training/rank_meeting.h"
#endif

namespace darkformer {

using std::chrono::milliseconds;

#ifdef DARKFORMER_GLOO

namespace {

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
    fail("GLOO_SOCKET_IFNAME is '", *interface,
         "', which cannot be used: ", first_line(error.what()));
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
  RankMeeting meeting;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

std::shared_ptr<Ranks> Ranks::join(const RankPlace& place, milliseconds timeout) {
  return std::shared_ptr<Ranks>(new Ranks(place, timeout));
}

Ranks::Ranks(const RankPlace& place, milliseconds timeout)
    : place_(place),
      timeout_(timeout),
      parts_(std::make_unique<Parts>(Parts{RankMeeting(place, timeout), {}})) {}
Ranks::~Ranks() = default;

void Ranks::lost(const std::string& reason) const {
  const bool late = reason.find("imed out") != std::string::npos;
  throw RankLost(concat(
      rank_name(place_), ": another rank ",
      late ? concat("did not answer for ", timeout_.count() / 1000, " s") : std::string("is gone"),
      "; the run was stopped"));
}

void Ranks::in_turn(const std::string& name, bool first, const std::function<void()>& work) {
  if (first) {
    work();
  }
  try {
    if (first) {
      parts_->meeting.tell(name);
    } else {
      parts_->meeting.wait_for(name, "the first one to read the texts");
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
    parts_->meeting.wait_for_all_ranks();
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices.push_back(gloo_device(place_));
    options->threads = 2;
    parts_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(parts_->meeting.store(),
                                                                place_.rank, place_.ranks, options);
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
