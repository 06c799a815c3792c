// glibc's allocator settings.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/memory.h"

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

void return_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 1 << 16);        // glibc's own
  mallopt(M_MMAP_THRESHOLD, 4 << 20);  // also keeps malloc from raising it by itself
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
#endif
}

}  // namespace darkformer
