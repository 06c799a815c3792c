// Starting, watching and ending the ranks of one machine.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/rank_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "darkformer/base/interrupt.h"
#include "darkformer/commands/program.h"
#include "darkformer/training/data_parallel.h"

namespace darkformer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLaunched = "DARKFORMER_LAUNCHED";
constexpr std::chrono::milliseconds kGlance{50};  // between two looks at the ranks
// For the others to end by themselves when it is known which rank failed, and when ranks have only
// missed others: then those who do not end are the ones who were missed.
constexpr std::chrono::seconds kGraceAfterFailure{1}, kGraceAfterLoss{5};
constexpr std::size_t kKeptBytes = 4096;  // bytes of what a rank says

std::vector<std::string> own_command_line() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '\0');) {
    words.push_back(word);
  }
  require(!words.empty(), "/proc/self/cmdline cannot be read, so the ranks cannot be started");
  return words;
}

// Our environment with these variables instead of its own ones of the same names.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& set) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (std::none_of(set.begin(), set.end(),
                     [&](const auto& pair) { return text.starts_with(pair.first + "="); })) {
      result.push_back(text);
    }
  }
  for (const auto& [name, value] : set) {
    result.push_back(concat(name, "=", value));
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

volatile sig_atomic_t pause_asked = 0;

// Ctrl-Z comes to the launcher alone, as Ctrl-C does: while this lives it is noted, not obeyed.
class PauseGuard {
 public:
  PauseGuard() {
    struct sigaction action {};
    action.sa_handler = [](int) { pause_asked = 1; };
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGTSTP, &action, &before_);
  }
  ~PauseGuard() { sigaction(SIGTSTP, &before_, nullptr); }
  PauseGuard(const PauseGuard&) = delete;
  PauseGuard& operator=(const PauseGuard&) = delete;

 private:
  struct sigaction before_ {};
};

struct Rank {
  pid_t process = -1;
  int errors = -1;   // where its standard error arrives; -1: it has ours
  std::string said;  // the end of it
  std::optional<int> status;
  bool ended_by_us = false;
  std::optional<Clock::time_point> stopped;  // by a signal, since then

  bool is_running() const { return process > 0 && !status; }
  bool was_killed() const { return status && WIFSIGNALED(*status) && !ended_by_us; }
  bool has_failed() const { return status && *status != 0; }
  int code() const { return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 0; }
  // By itself, not because another one did.
  bool is_cause() const { return was_killed() || (code() != 0 && code() != kExitRankLost); }
  // Ended by us for being stopped.
  bool was_stopped() const { return ended_by_us && stopped; }

  void end() {
    ended_by_us = true;
    kill(process, SIGKILL);
  }
};

// The last line, without the program's name before it.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  text = text.substr(text.rfind('\n') + 1);
  const std::size_t colon = text.find(": ");
  return text.starts_with("darkformer ") && colon != std::string::npos ? text.substr(colon + 2)
                                                                       : text;
}

class RankProcesses {
 public:
  explicit RankProcesses(const Launch& launch) : launch_(launch), ranks_(launch.ranks) {
    for (int i = 0; i < launch.ranks; ++i) {
      start(i);
    }
  }
  ~RankProcesses() {
    for (Rank& rank : ranks_) {
      if (rank.is_running()) {
        kill(rank.process, SIGKILL);
        waitpid(rank.process, nullptr, 0);
      }
      if (rank.errors >= 0) {
        close(rank.errors);
      }
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void wait_for_all() {
    while (
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.is_running(); })) {
      listen();
      look();
      hand_on_signals();
      pause_with_ranks();
      end_the_stopped();
      end_those_left();
    }
    listen();
  }

  // Throws what the failure of the ranks comes to.
  void report() const {
    if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.has_failed(); })) {
      return;
    }
    if (ranks_[0].code() != 0 && ranks_[0].code() != kExitRankLost) {
      throw ReportedFailure(ranks_[0].code());
    }
    const std::string reason = cause();
    if (signalled_) {
      throw Interrupted(concat("stopped; ", reason, "; ", launch_.way_on()));
    }
    fail(reason, "; the other ranks were stopped; ", launch_.way_on());
  }

 private:
  void start(int number) {
    std::vector<std::string> words = own_command_line();
    std::vector<std::pair<std::string, std::string>> set = {
        {kLaunched, "1"},
        {"RANK", std::to_string(number)},
        {"WORLD_SIZE", std::to_string(launch_.ranks)},
        {"LOCAL_RANK", std::to_string(number)},
        {"LOCAL_WORLD_SIZE", std::to_string(launch_.ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(store_.port())},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCHELASTIC_RESTART_COUNT", "0"},
        {"OMP_NUM_THREADS", std::to_string(launch_.threads)}};
    std::vector<std::string> variables = environment_with(set);
    const std::vector<char*> arguments = pointers(words), environment = pointers(variables);
    std::array<int, 2> pipe = {-1, -1};
    require(number == 0 || pipe2(pipe.data(), O_CLOEXEC) == 0,
            "the ranks cannot be started: ", std::strerror(errno));
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process == 0) {
      become_rank(parent, pipe[1], arguments, environment);
    }
    if (pipe[1] >= 0) {
      close(pipe[1]);
      fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    }
    ranks_[number].errors = pipe[0];
    require(process > 0, "rank ", number, " cannot be started: ", std::strerror(errno));
    ranks_[number].process = process;
  }

  // In the new process: only calls that are safe between fork and exec.
  [[noreturn]] static void become_rank(pid_t parent,
                                       int errors,
                                       const std::vector<char*>& arguments,
                                       const std::vector<char*>& environment) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(kExitRankLost);
    }
    setpgid(0, 0);  // Ctrl-C comes to the launcher alone, which hands it on once
    if (errors >= 0) {
      dup2(errors, STDERR_FILENO);
    }
    execve("/proc/self/exe", arguments.data(), environment.data());
    _exit(127);
  }

  // Takes what the ranks have said, waiting a little for more.
  void listen() {
    std::vector<pollfd> open;
    for (const Rank& rank : ranks_) {
      if (rank.errors >= 0) {
        open.push_back({rank.errors, POLLIN, 0});
      }
    }
    poll(open.data(), open.size(), static_cast<int>(kGlance.count()));
    for (Rank& rank : ranks_) {
      read_errors(rank);
    }
  }

  static void read_errors(Rank& rank) {
    std::array<char, 1024> bytes;
    while (rank.errors >= 0) {
      const ssize_t count = read(rank.errors, bytes.data(), bytes.size());
      if (count <= 0) {
        if (count == 0) {
          close(rank.errors);
          rank.errors = -1;
        }
        return;
      }
      rank.said.append(bytes.data(), static_cast<std::size_t>(count));
      rank.said.erase(0, rank.said.size() - std::min(kKeptBytes, rank.said.size()));
    }
  }

  void look() {
    for (Rank& rank : ranks_) {
      int status = 0;
      if (rank.is_running() &&
          waitpid(rank.process, &status, WNOHANG | WUNTRACED | WCONTINUED) == rank.process) {
        note(rank, status);
      }
    }
  }

  void note(Rank& rank, int status) {
    if (WIFSTOPPED(status)) {
      rank.stopped = Clock::now();
    } else if (WIFCONTINUED(status)) {
      rank.stopped.reset();
    } else {
      rank.status = status;
      if (status != 0 && !failed_) {
        failed_ = Clock::now();
      }
    }
  }

  void hand_on_signals() {
    if (!interrupted() || signalled_) {
      return;
    }
    signalled_ = true;
    send(SIGTERM);
  }

  // Until somebody continues us.
  void pause_with_ranks() {
    if (pause_asked == 0) {
      return;
    }
    pause_asked = 0;
    send(SIGSTOP);
    raise(SIGSTOP);
    send(SIGCONT);
  }

  void send(int signal) const {
    for (const Rank& rank : ranks_) {
      if (rank.is_running()) {
        kill(rank.process, signal);
      }
    }
  }

  // The others would miss a stopped rank after the time limit; ended a little before it, all are
  // gone within it.
  void end_the_stopped() {
    const auto patience = launch_.timeout - std::min(kGraceAfterFailure, launch_.timeout / 2);
    for (Rank& rank : ranks_) {
      if (rank.is_running() && !rank.ended_by_us && rank.stopped &&
          Clock::now() - *rank.stopped >= patience) {
        rank.end();
      }
    }
  }

  void end_those_left() {
    const bool is_known = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
      return r.is_cause() || r.was_stopped();
    });
    if (!failed_ || Clock::now() - *failed_ < (is_known ? kGraceAfterFailure : kGraceAfterLoss)) {
      return;
    }
    for (Rank& rank : ranks_) {
      if (rank.is_running() && !rank.ended_by_us) {
        rank.end();
      }
    }
  }

  std::string cause() const {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (rank.was_killed()) {
        const int signal = WTERMSIG(*rank.status);
        return concat("rank ", i, " was killed by signal ", signal, " (", strsignal(signal), ")",
                      signal == SIGKILL ? ", perhaps for lack of memory" : "");
      }
      if (rank.is_cause()) {
        const std::string line = last_line(rank.said);
        return line.empty() ? concat("rank ", i, " ended with code ", rank.code())
                            : concat("rank ", i, ": ", line);
      }
    }
    return silent_ranks();
  }

  // Nobody failed by itself: those that had to be ended were waited for in vain.
  std::string silent_ranks() const {
    const bool some_stopped =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.was_stopped(); });
    std::string names;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (some_stopped ? ranks_[i].was_stopped() : ranks_[i].ended_by_us) {
        names += concat(names.empty() ? "rank " : ", rank ", i);
      }
    }
    return names.empty() ? std::string("the ranks lost each other")
                         : concat(names, some_stopped ? " did not answer: it is stopped (SIGSTOP)"
                                                      : " did not answer");
  }

  const Launch& launch_;
  RankStore store_;
  std::vector<Rank> ranks_;
  std::optional<Clock::time_point> failed_;  // the first of them
  bool signalled_ = false;
};

}  // namespace

bool is_launched_rank() {
  return std::getenv(kLaunched) != nullptr;
}

void launch_ranks(const Launch& launch) {
  const PauseGuard guard;
  RankProcesses processes(launch);
  processes.wait_for_all();
  processes.report();
}

}  // namespace darkformer
