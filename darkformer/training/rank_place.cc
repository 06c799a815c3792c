// The variables of torchrun, Kubernetes and Slurm scripts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/rank_place.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "darkformer/base/error.h"

namespace darkformer {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

namespace {

std::optional<int> number(const char* name, int minimum) {
  const auto text = variable(name);
  if (!text) {
    return std::nullopt;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  require(error == std::errc() && end == text->data() + text->size() && value >= minimum, name,
          " is '", *text, "'; wanted a number from ", minimum, " to ",
          std::numeric_limits<int>::max());
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
  require(!variable("LOCAL_WORLD_SIZE") || place.local_rank < place.local_ranks, "LOCAL_RANK is ",
          place.local_rank, ", but LOCAL_WORLD_SIZE is ", place.local_ranks);
  require(place.local_ranks <= *ranks, "LOCAL_WORLD_SIZE is ", place.local_ranks,
          ", but WORLD_SIZE is ", *ranks);
  place.store_given = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return place;
}

std::string rank_name(const RankPlace& place) {
  return concat("rank ", place.rank, " of ", place.ranks);
}

std::string meeting_address(const RankPlace& place) {
  return concat(place.host, ":", place.port);
}

}  // namespace darkformer
