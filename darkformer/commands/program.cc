// Parse, set the process up as the common options say, run, and turn exceptions into exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/program.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <new>
#include <ostream>

#include "darkformer/base/first_line.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"
#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/command_line.h"
#include "darkformer/kernels/cpu_features.h"

namespace darkformer {
namespace {

ProgressStyle choose_progress(const CommonOptions& common) {
  if (common.json || common.quiet) {
    return ProgressStyle::kSilent;
  }
  return stderr_is_terminal() ? ProgressStyle::kBar : ProgressStyle::kLines;
}

LogLevel choose_level(const CommonOptions& common) {
  if (common.quiet || common.json) {
    return LogLevel::kWarning;
  }
  return common.verbose ? LogLevel::kDebug : LogLevel::kInfo;
}

constexpr std::int64_t kMostThreadsPerCore = 8;

void set_up(const CommonOptions& common) {
  if (common.quiet && common.verbose) {
    throw UsageError("--quiet and --verbose contradict each other; give one");
  }
  set_log_level(choose_level(common));
  set_progress_style(choose_progress(common));
  const int cores = system_info().hardware_threads;
  if (common.threads > kMostThreadsPerCore * cores) {
    throw UsageError(concat("--threads: ", common.threads, " on a machine of ", cores,
                            "; more than ", kMostThreadsPerCore,
                            " for each only wait for each other"));
  }
  if (common.threads > 0) {
    set_threads(static_cast<int>(common.threads));
  }
  // libtorch, left alone, sets OpenMP to half the cores at its first parallel loop.
  at::set_num_threads(threads());
  log_debug(kernels::cap_unsafe_isa());
}

void run(const Invocation& invocation,
         const CommonOptions& common,
         const std::vector<Field>& common_fields,
         std::ostream& out) {
  if (!invocation.answer.empty()) {
    out << invocation.answer;
  } else {
    set_up(common);
    std::vector<Field> fields = invocation.command->fields;
    fields.insert(fields.end(), common_fields.begin(), common_fields.end());
    const InterruptGuard guard;
    Context context{common, out, invocation.command->text.name, fields};
    invocation.command->run(context);
  }
  out.flush();
  require(out.good(), "standard output: cannot be written (closed or full)");
}

constexpr const char* kOutOfMemory =
    "out of memory; a smaller batch, a shorter context or fewer threads need less";

// libtorch's allocator has no exception of its own for this.
bool is_out_of_memory(const std::string& text) {
  return text.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments,
                std::ostream& out,
                std::ostream& errors) {
  std::string name = "darkformer";
  CommonOptions common;
  const auto report = [&](const std::string& text, int code) {
    errors << name << ": " << (common.verbose ? text : first_line(text)) << std::endl;
    return code;
  };
  try {
    std::vector<Command> commands = all_commands();
    std::vector<Field> common_fields = fields_of(common);
    for (const Command& command : commands) {
      if (!arguments.empty() && command.text.name == arguments.front()) {
        name += " " + command.text.name;
      }
    }
    const Invocation invocation = parse_command_line(arguments, commands, common_fields);
    run(invocation, common, common_fields, out);
    return kExitDone;
  } catch (const ReportedFailure& failure) {
    return failure.code();
  } catch (const UsageError& error) {
    return report(error.what(), kExitUsage);
  } catch (const std::bad_alloc&) {
    return report(kOutOfMemory, kExitFailed);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(concat(error.path1().string(), ": ", error.code().message()), kExitFailed);
  } catch (const std::exception& error) {
    return report(is_out_of_memory(error.what()) ? kOutOfMemory : error.what(), kExitFailed);
  }
}

}  // namespace darkformer
