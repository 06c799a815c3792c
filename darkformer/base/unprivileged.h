// For tests: while it lives, file permissions bind us even when the tests run as root.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdlib>

#include "darkformer/base/error.h"

namespace darkformer {

class Unprivileged {
 public:
  Unprivileged() : was_root_(geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    require(!was_root_ || seteuid(kNobody) == 0, "cannot drop root's rights for a test");
  }
  ~Unprivileged() {
    if (was_root_ && seteuid(0) != 0) {
      std::abort();
    }
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  bool was_root_;
};

}  // namespace darkformer
