// Settings of glibc's malloc.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/allocator.h"

#include <malloc.h>

namespace darkformer {

void return_large_blocks() {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, 4 << 20);  // also keeps malloc from raising it by itself
#endif
}

}  // namespace darkformer
