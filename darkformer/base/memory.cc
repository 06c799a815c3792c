// glibc's allocator settings, and the kernel's pages.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>  // defines __GLIBC__
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace darkformer {

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void prefer_huge_pages(void* begin, std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20U;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (address + bytes) / kPage * kPage;
  if (first < last) {
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // a hint: may fail
  }
#endif
}

void return_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 1 << 16);        // glibc's own
  mallopt(M_MMAP_THRESHOLD, 4 << 20);  // also keeps malloc from raising it by itself
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
#endif
}

}  // namespace darkformer
