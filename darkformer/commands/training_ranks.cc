// Ranks by environment or by --nproc.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/training_ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "darkformer/base/log.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/program.h"
#include "darkformer/commands/rank_launcher.h"
#include "darkformer/text/shared_batch.h"
#include "darkformer/training/run_checkpoints.h"

namespace darkformer {
namespace {

// The end of a line that tells of a failure.
std::string way_on(const TrainingOptions& options, const std::string& command) {
  const std::vector<Checkpoint> found = RunCheckpoints(options.out, options.keep).all();
  return found.empty() ? std::string("there is no checkpoint yet, so --resume begins anew")
                       : concat("go on after step ", found.back().state.step, " with: ", command);
}

}  // namespace

std::string resume_command(const TrainingOptions& options, const Context& context) {
  return concat("darkformer ", context.command, " --config ", (options.out / "run.toml").string(),
                " --resume");
}

std::optional<std::shared_ptr<Ranks>> enter_ranks(const TrainingOptions& options,
                                                  const Context& context) {
  if (const auto place = rank_place()) {
    if (options.nproc > 1 && !is_launched_rank()) {
      throw UsageError(
          "--nproc starts the ranks itself, but RANK and WORLD_SIZE say that a launcher has; "
          "give --nproc 1, or unset them");
    }
    if (place->rank > 0) {
      set_log_level(LogLevel::kWarning);
      set_progress_style(ProgressStyle::kSilent);
    }
    return Ranks::join(*place, std::chrono::seconds(options.timeout));
  }
  if (options.nproc == 1) {
    return std::shared_ptr<Ranks>();
  }
  require(has_collectives(),
          "--nproc: this build has no Gloo; install libgloo-dev and build again");
  require_shareable(options.batch, options.nproc);  // which every rank would say at once
  const auto ranks = static_cast<int>(options.nproc);
  const std::string command = resume_command(options, context);
  launch_ranks({.ranks = ranks,
                .threads = std::max(1, threads() / ranks),
                .timeout = std::chrono::seconds(options.timeout),
                .way_on = [&] { return way_on(options, command); }});
  return std::nullopt;
}

void after_the_first(const std::shared_ptr<Ranks>& ranks, const std::function<void()>& work) {
  if (ranks) {
    ranks->after_the_first(work);
  } else {
    work();
  }
}

void end_without_peers(const RankLost& error,
                       const TrainingOptions& options,
                       const Context& context) {
  context.out.flush();
  set_status_line("");
  if (is_launched_rank()) {
    std::_Exit(kExitRankLost);
  }
  const std::string line = concat("darkformer ", context.command, ": ", error.what(), "; ",
                                  way_on(options, resume_command(options, context)), "\n");
  std::fputs(line.c_str(), stderr);
  std::_Exit(kExitFailed);
}

}  // namespace darkformer
