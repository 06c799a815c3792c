// One thread policy for the whole process: our loops, oneDNN and libtorch share OpenMP's pool, so
// nothing oversubscribes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace darkformer {

// The number of threads parallel_for uses from now on in this thread; at least 1.
void set_threads(int count);
int threads();

// Calls body(i) for each i in [0, count), on up to threads() threads; nested calls run on the
// calling thread alone. Which thread runs which i is not fixed: results must not depend on it. The
// first exception is rethrown after the loop.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body);

// Calls body() on each thread of the pool but the calling one; on none inside a parallel loop.
void on_each_worker(void (*body)());

// Splits [0, count) into at most threads() contiguous ranges of at least `grain` and calls
// body(begin, end) for each. The split depends on count, grain and threads() only.
void parallel_ranges(std::size_t count,
                     std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace darkformer
