// The commands of the program. A new one is a new file with `Command NAME_command()` and a line
// here.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/command.h"

// One a line, in the order of help.
// clang-format off
#define DARK_COMMANDS(entry) \
  entry(info)                \
  entry(logits)              \
  entry(generate)            \
  entry(sample)              \
  entry(analyze)             \
  entry(convert)             \
  entry(pretrain)            \
  entry(finetune)            \
  entry(plan)                \
  entry(eval)                \
  entry(linearize)           \
  entry(report)              \
  entry(variance)            \
  entry(reproduce)           \
  entry(bench)               \
  entry(completion)          \
  entry(spectra)             \
  entry(docs)
// clang-format on

namespace darkformer {

#define DARK_DECLARE(name) Command name##_command();
DARK_COMMANDS(DARK_DECLARE)

std::vector<Command> all_commands() {
#define DARK_MAKE(name) name##_command(),
  return {DARK_COMMANDS(DARK_MAKE)};
}

}  // namespace darkformer
