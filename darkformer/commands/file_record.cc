// Records written and compared.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/file_record.h"

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/base/read_file.h"
#include "darkformer/commands/run_toml.h"
#include "darkformer/commands/stages.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

std::string input_line(const std::string& option, std::uint64_t key) {
  return concat(option, " = \"", to_hex(key), "\"\n");
}

}  // namespace

fs::path file_record(const fs::path& file) {
  return fs::path(file) += ".run.toml";
}

void write_file_record(const fs::path& file, const Context& context, const InputKeys& inputs) {
  std::string text = run_toml_text(context.command, context.fields) + "\n[inputs]\n";
  for (const auto& [option, key] : inputs) {
    text += input_line(option, key);
  }
  write_file_atomically(file_record(file), text);
}

void check_file_record(const fs::path& file, const Context& context, const InputKeys& inputs) {
  const std::string remedy = "; remove it or give another --out";
  if (!fs::exists(file_record(file))) {
    throw UsageError(concat(file.string(), " is there already, but not ",
                            file_record(file).filename().string(),
                            ", which would tell what made it", remedy));
  }
  const std::string before = read_file(file_record(file));
  const std::string changed =
      changed_options(before, run_toml_text(context.command, context.fields), {"out"});
  if (!changed.empty()) {
    throw UsageError(concat(file.string(), ": was made with ", changed, remedy));
  }
  for (const auto& [option, key] : inputs) {
    if (before.find("\n" + input_line(option, key)) == std::string::npos) {
      throw UsageError(
          concat(file.string(), ": ", option, " has changed since this was made", remedy));
    }
  }
}

}  // namespace darkformer
