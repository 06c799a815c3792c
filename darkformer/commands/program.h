// The program: arguments in, exit code out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "darkformer/base/error.h"

namespace darkformer {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// A command failed and its line is on standard error already: the program just ends with the code.
class ReportedFailure : public Error {
 public:
  explicit ReportedFailure(int code) : Error("failed"), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Runs one command line (without the program's name). Results go to `out`; a failure is one line on
// `errors`. Never throws.
int run_program(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& errors);

}  // namespace darkformer
