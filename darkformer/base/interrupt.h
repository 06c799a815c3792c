// Ctrl-C, SIGTERM and SIGHUP as a flag that long loops poll, so that they save before they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/base/error.h"

namespace darkformer {

// Work was stopped on request; the message says what was saved and how to go on.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// From here until the end of the guard, the first SIGINT, SIGTERM or SIGHUP (a closed terminal,
// unless nohup has it ignored) sets the flag, and a second SIGINT or SIGTERM, half a second later
// or more, ends the process at once (exit code 128 + signal, as shells expect). One guard at a
// time: main has it; the library only polls.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// From now on a mapped file that is cut short while it is read (SIGBUS) ends the process with one
// line and exit code 1, as other failures do. For main().
void report_cut_files();

// Has a signal come? Cheap enough for every step of a loop; any thread may ask.
bool interrupted();

// Sets or clears the flag as a signal would: for loops that run a loop, and for tests.
void set_interrupted(bool value);

}  // namespace darkformer
