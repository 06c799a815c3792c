// Counts the lines a reader had to leave out, and ends the reading when there are too many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace darkformer {

// More than max(`at_least`, `fraction` of the lines) broken lines are an Error.
struct BrokenLimit {
  double fraction = 0.01;
  std::int64_t at_least = 10;
};

// What was read from one file so far.
struct ReadReport {
  std::string file;
  std::int64_t lines = 0;      // blank ones included
  std::int64_t documents = 0;  // with at least one byte of text
  std::int64_t broken_lines = 0;
  std::int64_t first_broken_line = 0;  // counted from 1; 0: none
  std::string first_broken_reason;

  // One line for a log, such as "c4.json.gz: 1000 documents from 1002 lines, 2 broken (first: line
  // 7: not JSON …)".
  std::string summary() const;
};

class BrokenLines {
 public:
  BrokenLines(ReadReport& report, BrokenLimit limit) : report_(report), limit_(limit) {}

  // Notes that line `number` (from 1) was left out. Throws Error as soon as the limit is passed
  // whatever may follow, taking the file to have at least kFewLines lines: a bad start does not
  // condemn a long file.
  void add(std::int64_t number, const std::string& reason);
  // At the end of the file: throws Error if the broken lines are more than the limit.
  void finish() const;

 private:
  static constexpr std::int64_t kFewLines = 10000;

  void check(std::int64_t lines) const;

  ReadReport& report_;
  BrokenLimit limit_;
};

}  // namespace darkformer
