// fork, exec, wait: one process for each job.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/folder_lock.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/read_file.h"

namespace darkformer::reproduce {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// How often children are looked after; short against a job, long against a look.
constexpr std::chrono::milliseconds kPause(20);

fs::path jobs_folder(const fs::path& folder) {
  return folder / "jobs";
}

fs::path marker(const fs::path& folder, const std::string& name) {
  return jobs_folder(folder) / (name + ".json");
}

std::string last_line(const fs::path& file) {
  std::string text = read_file(file);
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  const auto start = text.rfind('\n');
  return start == std::string::npos ? text : text.substr(start + 1);
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const char* program,
                         char* const* arguments,
                         const char* folder,
                         int out,
                         int errors,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool ready = getppid() == parent && chdir(folder) == 0 && dup2(out, STDOUT_FILENO) >= 0 &&
                     dup2(errors, STDERR_FILENO) >= 0;
  if (ready) {
    execv(program, arguments);
  }
  _exit(127);
}

struct Child {
  const Job* job = nullptr;
  Clock::time_point started;
};

class Runner {
 public:
  Runner(const std::vector<Job>& jobs, const JobOptions& options) : options_(options) {
    for (const Job& job : jobs) {
      if (is_finished(options.folder, job)) {
        done_.insert(job.name);
      } else {
        waiting_.push_back(&job);
      }
    }
    // Long ones first, so that the last one does not run alone for long.
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const Job* a, const Job* b) { return a->work > b->work; });
  }

  void run() {
    while (!running_.empty() || (!waiting_.empty() && failure_.empty() && !interrupted())) {
      start_what_can();
      if (interrupted() && !told_) {
        told_ = true;
        for (const auto& [pid, child] : running_) {
          kill(pid, SIGTERM);
        }
      }
      if (!collect()) {
        require(!running_.empty() || waiting_.empty() || !failure_.empty() || interrupted(),
                "jobs that need what no job makes");
        std::this_thread::sleep_for(kPause);
      }
    }
    if (interrupted()) {
      throw Interrupted(concat("stopped with ", count_text(done_.size(), "job"),
                               " done; the same command goes on"));
    }
    require(failure_.empty(), failure_);
  }

 private:
  bool can_start(const Job& job) const {
    const bool ready = std::all_of(job.needs.begin(), job.needs.end(),
                                   [&](const std::string& name) { return done_.count(name) == 1; });
    const bool timed = std::any_of(running_.begin(), running_.end(),
                                   [](const auto& child) { return child.second.job->alone; });
    return ready && !timed && (!job.alone || running_.empty());
  }

  void start_what_can() {
    if (!failure_.empty() || interrupted()) {
      return;
    }
    for (auto at = waiting_.begin();
         at != waiting_.end() && running_.size() < static_cast<std::size_t>(options_.at_once);) {
      if (can_start(**at)) {
        start(**at);
        at = waiting_.erase(at);
      } else {
        ++at;
      }
    }
  }

  void start(const Job& job) {
    if (!job.makes.empty() && !job.resumes) {
      fs::remove_all(options_.folder / job.makes);  // of one that was killed before it was marked
    }
    std::vector<std::string> words = job.arguments;
    words.insert(words.begin(), options_.program.string());
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    const std::string folder = options_.folder.string();
    const int out = open_for(job, ".out"), errors = open_for(job, ".err");
    const pid_t self = getpid(), pid = fork();
    if (pid == 0) {
      become(words[0].c_str(), arguments.data(), folder.c_str(), out, errors, self);
    }
    close(out), close(errors);
    require(pid > 0, "cannot start a process: ", std::strerror(errno));
    running_[pid] = {&job, Clock::now()};
  }

  int open_for(const Job& job, const char* ending) const {
    const fs::path file = jobs_folder(options_.folder) / (job.name + ending);
    const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    require(descriptor >= 0, file.string(), ": cannot be written: ", std::strerror(errno));
    return descriptor;
  }

  // Has a child ended?
  bool collect() {
    for (const auto& [pid, child] : running_) {
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) == pid) {
        const Child ended = child;
        running_.erase(pid);
        end(ended, status);
        return true;
      }
    }
    return false;
  }

  void end(const Child& child, int status) {
    const Job& job = *child.job;
    const fs::path out = jobs_folder(options_.folder) / (job.name + ".out");
    const fs::path errors = jobs_folder(options_.folder) / (job.name + ".err");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      if (failure_.empty() && !interrupted()) {
        const std::string said = last_line(errors);
        failure_ = concat(job.name, ": ",
                          !said.empty()         ? said
                          : WIFSIGNALED(status) ? concat("was ended by signal ", WTERMSIG(status))
                                                : concat("exit code ", WEXITSTATUS(status)));
      }
      return;
    }
    OrderedJson result;
    result["arguments"] = job.arguments;
    result["seconds"] = std::chrono::duration<double>(Clock::now() - child.started).count();
    result["result"] = parse_ordered_json(last_line(out), out.string());
    write_json(marker(options_.folder, job.name), result);
    fs::remove(out), fs::remove(errors);
    done_.insert(job.name);
    if (options_.finished) {
      options_.finished(job);
    }
  }

  const JobOptions& options_;
  std::vector<const Job*> waiting_;
  std::map<pid_t, Child> running_;
  std::set<std::string> done_;
  std::string failure_;
  bool told_ = false;
};

}  // namespace

bool is_finished(const fs::path& folder, const Job& job) {
  return has_result(folder, job.name) &&
         read_ordered_json(marker(folder, job.name)).value("arguments", OrderedJson()) ==
             OrderedJson(job.arguments);
}

bool has_result(const fs::path& folder, const std::string& name) {
  return fs::exists(marker(folder, name));
}

void run_jobs(const std::vector<Job>& jobs, const JobOptions& options) {
  fs::create_directories(jobs_folder(options.folder));
  const FolderLock lock(options.folder);
  Runner(jobs, options).run();
}

OrderedJson job_result(const fs::path& folder, const std::string& name) {
  const fs::path file = marker(folder, name);
  require(fs::exists(file), name, ": this job is not finished");
  const OrderedJson stored = read_ordered_json(file);
  require(stored.contains("result") && stored["result"].is_object(), file.string(),
          ": needs an object \"result\"");
  return stored["result"];
}

}  // namespace darkformer::reproduce
