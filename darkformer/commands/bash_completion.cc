// Writing the completion script for bash.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bash_completion.h"

#include <sstream>

namespace darkformer {
namespace {

std::string words(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    joined += (joined.empty() ? "" : " ") + text;
  }
  return joined;
}

// What may stand after the flag: its choices, a file name, or nothing we could know.
void write_values(std::ostream& out, const Field& field) {
  out << "        " << field.flag();
  if (field.traits.letter != 0) {
    out << "|-" << field.traits.letter;
  }
  out << ") ";
  if (!field.traits.choices.empty()) {
    out << "_darkformer_words '" << words(field.traits.choices) << "'";
  } else if (field.is_path()) {
    out << "_darkformer_files";
  } else {
    out << ":";
  }
  out << "; return ;;\n";
}

void write_completion_of(std::ostream& out,
                         const Command& command,
                         const std::vector<Field>& common) {
  std::vector<Field> fields = command.fields;
  fields.insert(fields.end(), common.begin(), common.end());
  std::vector<std::string> positional;
  out << "    " << command.text.name << ")\n      case $previous in\n";
  for (const Field& field : fields) {
    if (field.traits.positional) {
      positional.insert(positional.end(), field.traits.choices.begin(), field.traits.choices.end());
    } else if (!field.is_flag()) {
      write_values(out, field);
    }
  }
  out << "      esac\n"
      << "      flags='" << words(flag_names(fields)) << (command.text.config ? " --config" : "")
      << " --help'\n"
      << "      plain='" << words(positional) << "' ;;\n";
}

constexpr const char* kHead =
    R"(# bash completion for darkformer. Load it: source <(darkformer completion bash)
_darkformer_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}
_darkformer_files() {
  compopt -o filenames 2>/dev/null || true
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
_darkformer() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} flags='' plain=''
  COMPREPLY=()
)";

constexpr const char* kTail = R"(  esac
  if [[ $current == -* ]]; then
    _darkformer_words "$flags"
  elif [[ -n $plain ]]; then
    _darkformer_words "$plain"
  else
    _darkformer_files
  fi
}
complete -F _darkformer darkformer
)";

}  // namespace

std::string bash_completion(const std::vector<Command>& commands) {
  CommonOptions common;
  const std::vector<Field> common_fields = fields_of(common);
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.text.hidden) {
      names.push_back(command.text.name);
    }
  }
  std::ostringstream out;
  out << kHead << "  if ((COMP_CWORD == 1)); then\n    _darkformer_words '" << words(names)
      << " --help --version'\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands) {
    if (!command.text.hidden) {
      write_completion_of(out, command, common_fields);
    }
  }
  out << kTail;
  return out.str();
}

}  // namespace darkformer
