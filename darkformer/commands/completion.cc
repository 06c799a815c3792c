// darkformer completion: prints a script that teaches a shell the commands and flags.
// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include "darkformer/commands/bash_completion.h"
#include "darkformer/commands/command.h"

namespace darkformer {
namespace {

struct CompletionOptions {
  std::string shell = "bash";
  void visit(auto&& field) {
    field("shell", shell, "the shell to write for",
          {.positional = true, .required = true, .choices = {"bash"}});
  }
};

void completion(const CompletionOptions&, Context& context) {
  const std::string script = bash_completion(all_commands());
  context.common.json ? context.print_json({{"script", script}}) : void(context.out << script);
}

}  // namespace

Command completion_command() {
  return make_command<CompletionOptions>(
      {.name = "completion",
       .summary = "Print a completion script for your shell",
       .example = "source <(darkformer completion bash)",
       .details = "Put the example into ~/.bashrc, or the printed script into "
                  "/etc/bash_completion.d/darkformer."},
      completion);
}

}  // namespace darkformer
