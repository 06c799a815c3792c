// The signal handler behind interrupted().
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace darkformer {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

struct sigaction before_interrupt {};
struct sigaction before_terminate {};

void on_signal(int signal) {
  if (flag.exchange(true)) {
    _exit(128 + signal);
  }
}

}  // namespace

InterruptGuard::InterruptGuard() {
  flag = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_terminate);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_terminate, nullptr);
}

bool interrupted() {
  return flag.load(std::memory_order_relaxed);
}

void set_interrupted(bool value) {
  flag = value;
}

}  // namespace darkformer
