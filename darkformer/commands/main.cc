// The darkformer program.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "darkformer/base/first_line.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/memory.h"
#include "darkformer/commands/blas_core.h"
#include "darkformer/commands/program.h"
#include "darkformer/kernels/cpu_features.h"

namespace {

// An exception that nobody can catch, as of a thread of libtorch's when the first rank's connection
// is reset: one line, as other failures have.
[[noreturn]] void end_with_the_reason() {
  std::string reason = "an unknown failure";
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {  // it has no words
  }
  std::fprintf(stderr, "darkformer: %s\n", darkformer::first_line(reason).c_str());
  std::_Exit(darkformer::kExitFailed);
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // not ready so early
namespace {

// Only what a signal handler may call.
void on_early_signal(int) {
  constexpr char kLine[] = "darkformer: stopped; nothing was begun\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(darkformer::kExitFailed);
}

// libtorch takes most of a second to register itself, before main: Ctrl-C ends that with a line.
// A signal that the parent ignores (nohup, jobs of a script) stays ignored.
void change_handlers(void (*from)(int), void (*to)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == from) {
      action.sa_handler = to;
      sigaction(signal, &action, nullptr);
    }
  }
}

void catch_early_signals(int, char**, char**) {
  change_handlers(SIG_DFL, on_early_signal);
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_all_libraries)(int, char**, char**) = catch_early_signals;

// A second signal, while a stopped command ends, has nothing more to say.
void end_early_signals() {
  change_handlers(on_early_signal, SIG_DFL);
}

}  // namespace
#else
namespace {
void end_early_signals() {}
}  // namespace
#endif

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "bench") {
    darkformer::restart_with_best_blas(argv);  // and the system's allocator as it is, for all sides
  } else {
    darkformer::keep_freed_memory();
  }
  std::set_terminate(end_with_the_reason);
  signal(SIGXFSZ, SIG_IGN);  // beyond the limit of a file's size a write fails, with a line
  darkformer::report_cut_files();
  darkformer::kernels::cap_unsafe_isa();  // before anybody's first use of oneDNN
  const int code = darkformer::run_program({argv + 1, argv + argc}, std::cout, std::cerr);
  end_early_signals();
  return code;
}
