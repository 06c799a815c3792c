// Which rank of how many a process is, and where they meet: what launchers tell it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace darkformer {

// Where a process stands among its peers, and where they meet.
struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // on this machine
  int local_ranks = 1;
  std::string host = {};     // of the meeting point
  std::uint16_t port = 0;    // 0: the system chooses one
  bool store_given = false;  // the launcher holds the meeting point, not rank 0
};

// From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun,
// Kubernetes' PyTorchJob and Slurm scripts set them; nothing where neither RANK nor WORLD_SIZE is
// set, or where there is one rank. Error: some are missing or make no sense.
std::optional<RankPlace> rank_place();

// "rank 1 of 4"
std::string rank_name(const RankPlace& place);

// "host:port"
std::string meeting_address(const RankPlace& place);

// A variable of the environment that is set and not empty.
std::optional<std::string> variable(const char* name);

}  // namespace darkformer
