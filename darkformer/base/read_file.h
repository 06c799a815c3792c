// A whole small file as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace darkformer {

// What the file holds. Throws, naming it, if it cannot be opened or is no regular file: a pipe
// would block until somebody writes, where Ctrl-C is not looked for.
std::string read_file(const std::filesystem::path& file);

}  // namespace darkformer
