// The ranks of a training command: joined, launched, and ended when one of them is gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "darkformer/commands/command.h"
#include "darkformer/commands/training_options.h"
#include "darkformer/training/data_parallel.h"

namespace darkformer {

// What a training command does first. One process: null. Where the environment says that this is
// one of several ranks: joins them, and silences all but the first. With --nproc: runs them all and
// returns nothing, for then the command is done.
std::optional<std::shared_ptr<Ranks>> enter_ranks(const TrainingOptions& options,
                                                  const Context& context);

// Runs `work`, on rank 0 before the others; they may read what it wrote.
void after_the_first(const std::shared_ptr<Ranks>& ranks, const std::function<void()>& work);

// Ends the process: what is under way with ranks that are gone would only be waited for.
[[noreturn]] void end_without_peers(const RankLost& error,
                                    const TrainingOptions& options,
                                    const Context& context);

// "darkformer finetune --config RUN/run.toml --resume"
std::string resume_command(const TrainingOptions& options, const Context& context);

}  // namespace darkformer
