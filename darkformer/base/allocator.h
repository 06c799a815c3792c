// How the process gives memory back to the system.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace darkformer {

// From now on large blocks (4 MiB and more) go back to the system when they are freed, instead of
// staying with the process in pieces that do not fit the next ones: what a run holds is then what
// it uses, and can be predicted. Costs a few per cent of time where many blocks are just above it.
void return_large_blocks();

}  // namespace darkformer
