// What Context offers to a running command.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/command.h"

#include <ostream>

#include "darkformer/base/interrupt.h"
#include "darkformer/build_info.h"
#include "darkformer/commands/run_toml.h"

namespace darkformer {

void Context::print_json(const OrderedJson& object) const {
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

Progress Context::progress(std::string label, std::int64_t total, std::string unit) const {
  Progress::Options options;
  options.unit = std::move(unit);
  return {std::move(label), total, std::move(options)};
}

void Context::stop_if_interrupted(const std::string& message) const {
  if (interrupted()) {
    throw Interrupted(message);
  }
}

void Context::write_run_toml(const std::filesystem::path& file) const {
  darkformer::write_run_toml(file, command, fields);
}

std::string Context::command_line() const {
  std::string line = "darkformer " + command;
  for (const Field& field : fields) {
    if (field.given) {
      line += field.traits.positional ? "" : " " + field.flag();
      line += field.is_flag() ? "" : " " + field.default_text();
    }
  }
  return line;
}

OrderedJson Context::settings() const {
  OrderedJson settings;
  for (const Field& field : fields) {
    if (!field.is_flag()) {
      settings[field.name] = field.default_text();
    }
  }
  settings["version"] = kBuildVersion, settings["commit"] = kBuildCommit;
  return settings;
}

}  // namespace darkformer
