// The command line and the settings as text.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/report_facts.h"

#include "darkformer/build_info.h"

namespace darkformer {

std::string command_line_of(const Context& context) {
  std::string line = "darkformer " + context.command;
  for (const Field& field : context.fields) {
    if (field.given) {
      line += field.traits.positional ? "" : " " + field.flag();
      line += field.is_flag() ? "" : " " + field.default_text();
    }
  }
  return line;
}

OrderedJson settings_of(const Context& context) {
  OrderedJson settings;
  for (const Field& field : context.fields) {
    if (!field.is_flag()) {
      settings[field.name] = field.default_text();
    }
  }
  settings["version"] = kBuildVersion, settings["commit"] = kBuildCommit;
  return settings;
}

}  // namespace darkformer
