// The program: arguments in, exit code out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace darkformer {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Runs one command line (without the program's name). Results go to `out`; a failure is one line on
// `errors`. Never throws.
int run_program(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& errors);

}  // namespace darkformer
