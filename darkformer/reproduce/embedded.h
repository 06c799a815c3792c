// The files of experiments/ as they were when the program was built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace darkformer::reproduce {

struct EmbeddedFile {
  std::string_view path, text;
};

const std::vector<EmbeddedFile>& embedded_experiments();  // sorted by path

}  // namespace darkformer::reproduce
