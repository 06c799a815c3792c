// Which darkformer this is and what it runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace darkformer {

std::string program_version();  // "0.1.0"
std::string program_commit();  // "a1b2c3d", with "+" when files were changed; "unknown" outside git
std::string libtorch_version();  // of the headers this was compiled with

// What `darkformer --version` prints: the above, oneDNN, SIMD targets, threads, CPU and memory.
std::string version_text();

}  // namespace darkformer
