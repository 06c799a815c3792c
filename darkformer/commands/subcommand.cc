// Parse, run, read the last line.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/subcommand.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "darkformer/commands/command_line.h"

namespace darkformer {

OrderedJson run_subcommand(const std::vector<std::string>& arguments, const Context& outer) {
  CommonOptions common = outer.common;
  common.json = true;
  std::vector<Command> commands = all_commands();
  std::vector<Field> common_fields = fields_of(common);
  const Invocation invocation = parse_command_line(arguments, commands, common_fields);
  std::vector<Field> fields = invocation.command->fields;
  fields.insert(fields.end(), common_fields.begin(), common_fields.end());
  std::ostringstream out;
  Context context{common, out, invocation.command->text.name, fields};
  invocation.command->run(context);
  std::string text = out.str();
  text.erase(text.find_last_not_of('\n') + 1);
  return parse_ordered_json(text.substr(text.rfind('\n') + 1), arguments.front());
}

std::string shell_line(const std::vector<std::string>& arguments) {
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string("-_./,:=").find(static_cast<char>(letter)) != std::string::npos;
  };
  std::string line = "darkformer";
  for (const std::string& word : arguments) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) {
      line += " " + word;
      continue;
    }
    line += " '";
    for (const char letter : word) {
      line += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    }
    line += "'";
  }
  return line;
}

}  // namespace darkformer
