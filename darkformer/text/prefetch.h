// Makes the next items on a thread of its own while the last one is in use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace darkformer {

// Calls produce() again and again on one background thread and keeps up to `capacity` items ready,
// in order. What produce() throws ends the thread and is thrown by next() after the items before
// it. The destructor lets a running produce() finish and joins. next() from one thread.
template <class Item>
class Prefetcher {
 public:
  Prefetcher(std::function<Item()> produce, std::size_t capacity)
      : produce_(std::move(produce)), capacity_(capacity), thread_([this] { run(); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_one();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  Item next() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !items_.empty() || failure_ != nullptr; });
    if (items_.empty()) {
      std::rethrow_exception(failure_);
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

 private:
  void run() {
    try {
      while (wait_for_room()) {
        put(produce_());
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    ready_.notify_one();
  }
  // False when it is time to stop.
  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return stopped_ || items_.size() < capacity_; });
    return !stopped_;
  }
  void put(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  std::function<Item()> produce_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable room_;
  std::deque<Item> items_;
  std::exception_ptr failure_;
  bool stopped_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace darkformer
