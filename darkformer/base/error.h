// The one exception of the library, and the door check that throws it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace darkformer {

// The user or the data is wrong. The message is one line: where, what was wanted, what was got,
// what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An impossible combination of options: the program ends with exit code 2, not 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Parts>
std::string concat(Parts&&... parts) {
  std::ostringstream text;
  (text << ... << std::forward<Parts>(parts));
  return text.str();
}

template <class... Parts>
[[noreturn]] void fail(Parts&&... parts) {
  throw Error(concat(std::forward<Parts>(parts)...));
}

// Throws Error with the joined parts unless the condition holds. For what comes from outside;
// programmers' errors are assert.
template <class... Parts>
void require(bool condition, Parts&&... parts) {
  if (!condition) {
    fail(std::forward<Parts>(parts)...);
  }
}

}  // namespace darkformer
