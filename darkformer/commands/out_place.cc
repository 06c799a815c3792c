// Looking before writing.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/out_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/read_file.h"
#include "darkformer/commands/run_toml.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

// Half-written files of a call that was killed do not count (base/atomic_file).
bool is_leftover(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with(".") && name.ends_with(".partial");
}

bool holds_files(const fs::path& folder) {
  try {
    const fs::directory_iterator entries(folder);
    return !std::all_of(begin(entries), end(entries),
                        [](const auto& entry) { return is_leftover(entry.path()); });
  } catch (const fs::filesystem_error& error) {
    fail(folder.string(), ": cannot be read: ", error.code().message());
  }
}

// Without links, whether it is there or not; as it is written where links cannot be read.
fs::path real_path(const fs::path& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path);  // a name that is not there would stay relative
  const fs::path real = fs::weakly_canonical(absolute, failed);
  return failed ? absolute.lexically_normal() : real;
}

// The folder, or the nearest one above it that is there.
void require_writable(const fs::path& out) {
  std::error_code none;
  fs::path folder = real_path(out);
  while (!fs::exists(folder, none) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const bool is_writable = faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  const int reason = errno;
  require(is_writable, out.string(), ": cannot be written: ", std::strerror(reason));
}

}  // namespace

void check_out_folder(const fs::path& out, const IsOwn& is_own, const std::string& flag) {
  std::error_code none;
  if (fs::is_symlink(out, none) && !fs::exists(out, none)) {
    throw UsageError(concat(out.string(), ": is a link that leads nowhere; give another ", flag));
  }
  if (fs::exists(out, none) && !fs::is_directory(out, none)) {
    throw UsageError(out.string() + ": is a file, wanted a folder name");
  }
  if (fs::exists(out, none) && holds_files(out) && !(is_own && is_own(out))) {
    throw UsageError(concat(out.string(), " holds ",
                            fs::exists(out / "config.json", none) ? "a model" : "other files",
                            " already; remove it or give another ", flag));
  }
  require_writable(out);
}

void check_outside(const fs::path& out, const fs::path& model, const std::string& flag) {
  std::error_code none;
  const fs::path inside = real_path(out).lexically_relative(real_path(model));
  if (inside == "." || fs::equivalent(out, model, none)) {
    throw UsageError(
        concat(flag, " is the model's own folder, ", model.string(), "; give another"));
  }
  if (!inside.empty() && *inside.begin() != "..") {
    throw UsageError(
        concat(flag, " is inside the model's own folder, ", model.string(), "; give another"));
  }
}

void check_out_file(const fs::path& out,
                    const IsOwn& is_own,
                    const std::string& content,
                    const std::string& flag) {
  std::error_code none;
  if (fs::is_regular_file(out, none) && !is_own(out)) {
    throw UsageError(concat(out.string(), " is there already and holds no ", content,
                            "; remove it or give another ", flag));
  }
}

IsOwn holds_run_of(const std::string& command) {
  return [command](const fs::path& folder) {
    std::error_code none;
    const fs::path file = folder / "run.toml";
    return fs::is_regular_file(file, none) && command_of(read_file(file)) == command;
  };
}

IsOwn holds_results_of(const std::string& kind) {
  return [kind](const fs::path& folder) {
    try {
      return read_ordered_json(folder / "results.json").at("kind") == kind;
    } catch (const std::exception&) {  // none, or of somebody else
      return false;
    }
  };
}

}  // namespace darkformer
