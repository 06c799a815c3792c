// How the process gets large blocks of memory, and what it does with those it gives back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer {

// From now on freed memory stays with the process and is used again (up to a gigabyte at the end of
// the heap). By default glibc returns every large tensor to the system at once, and the next one
// begins with a page fault every 4096 bytes: up to half the time of a training step or a long
// attention. For main(), before large tensors; libraries leave such a choice to the program.
void keep_freed_memory();

// The opposite, for processes that need most of a machine: large blocks go back to the system when
// they are freed, so that what a process holds is what it uses, and can be predicted.
void return_freed_memory();

// Before a new block is filled: asks the system to back its inside by pages of 2 MB where it has
// them for the asking, one fault instead of 512. Nothing for blocks that are too small to gain.
// The block needs no more memory than without.
void prefer_huge_pages(void* begin, std::size_t bytes);

}  // namespace darkformer
