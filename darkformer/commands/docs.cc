// darkformer docs: prints docs/cli.md, which is generated and checked by tools/check_docs.
// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include "darkformer/commands/cli_reference.h"
#include "darkformer/commands/command.h"

namespace darkformer {
namespace {

struct DocsOptions {
  void visit(auto&&) {}
};

void docs(const DocsOptions&, Context& context) {
  context.out << cli_reference(all_commands());
}

}  // namespace

Command docs_command() {
  return make_command<DocsOptions>({.name = "docs",
                                    .summary = "Print docs/cli.md",
                                    .example = "darkformer docs > docs/cli.md",
                                    .hidden = true},
                                   docs);
}

}  // namespace darkformer
