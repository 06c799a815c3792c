// Parallel loops on OpenMP, or on std::thread where the thread sanitizer must see the
// synchronisation.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/threads.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace darkformer {
namespace {

thread_local bool inside_parallel_loop = false;

// Keeps the first exception of a loop; the other iterations still run.
class FirstException {
 public:
  void run(const std::function<void(std::size_t)>& body, std::size_t i) noexcept {
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) {
        first_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (first_) {
      std::rethrow_exception(first_);
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

#ifdef DARKFORMER_STD_THREADS
void run_workers(std::size_t workers, const std::function<void()>& work) {
  std::vector<std::thread> pool;
  for (std::size_t w = 1; w < workers; ++w) {
    pool.emplace_back(work);
  }
  work();
  for (std::thread& thread : pool) {
    thread.join();
  }
}
#else
void run_workers(std::size_t workers, const std::function<void()>& work) {
#pragma omp parallel num_threads(static_cast <int>(workers))
  work();
}
#endif

}  // namespace

void set_threads(int count) {
  omp_set_num_threads(std::max(1, count));
}

int threads() {
  return omp_get_max_threads();
}

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) {
  const std::size_t workers = std::min<std::size_t>(count, static_cast<std::size_t>(threads()));
  if (workers <= 1 || inside_parallel_loop || omp_in_parallel() != 0) {
    for (std::size_t i = 0; i < count; ++i) {
      body(i);
    }
    return;
  }
  FirstException exceptions;
  std::atomic<std::size_t> next{0};
  run_workers(workers, [&] {
    inside_parallel_loop = true;
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      exceptions.run(body, i);
    }
    inside_parallel_loop = false;
  });
  exceptions.rethrow();
}

// The thread sanitizer does not see how OpenMP's runtime, built without it, hands `body` on.
__attribute__((no_sanitize("thread"))) void on_each_worker(void (*body)()) {
  if (threads() <= 1 || omp_in_parallel() != 0) {
    return;
  }
#pragma omp parallel
  if (omp_get_thread_num() != 0) {
    body();
  }
}

void parallel_ranges(std::size_t count,
                     std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& body) {
  if (count == 0) {
    return;
  }
  const std::size_t most = std::max<std::size_t>(1, count / std::max<std::size_t>(1, grain));
  const std::size_t ranges = std::min<std::size_t>(most, static_cast<std::size_t>(threads()));
  parallel_for(ranges, [&](std::size_t r) { body(count * r / ranges, count * (r + 1) / ranges); });
}

}  // namespace darkformer
