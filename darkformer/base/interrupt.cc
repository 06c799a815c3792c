// The signal handler behind interrupted().
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace darkformer {
namespace {

constexpr std::int64_t kSameWish = 500;  // milliseconds

std::atomic<bool> flag{false};
std::atomic<std::int64_t> first_signal{0};  // when it came; 0: not yet
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may not wait for a lock");

// What asks a program to end: Ctrl-C, a launcher, a terminal that was closed.
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> before{};

// Only what a signal handler may call.
[[noreturn]] void end_with_line(std::string_view line, int code) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(code);
}

std::int64_t milliseconds_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

// One wish may come as two signals: timeout(1) tells the process and its group, a closed terminal
// the system and the shell.
void on_signal(int signal) {
  const std::int64_t now = milliseconds_now();
  std::int64_t first = 0;
  flag = true;
  if (!first_signal.compare_exchange_strong(first, now) && signal != SIGHUP &&
      now - first > kSameWish) {
    end_with_line("darkformer: ended at once by a second signal\n", 128 + signal);
  }
}

// The page that is missing cannot be had.
void on_cut_file(int) {
  end_with_line("darkformer: a file was cut short, or its disk failed, while it was being read\n",
                1);
}

}  // namespace

void report_cut_files() {
  struct sigaction action {};
  action.sa_handler = on_cut_file;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

InterruptGuard::InterruptGuard() {
  set_interrupted(false);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &before[i]);
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) {  // nohup
      sigaction(kSignals[i], &before[i], nullptr);
    }
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &before[i], nullptr);
  }
}

bool interrupted() {
  return flag.load(std::memory_order_relaxed);
}

void set_interrupted(bool value) {
  flag = value;
  first_signal = 0;
}

}  // namespace darkformer
