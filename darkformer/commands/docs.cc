// darkformer docs: prints docs/cli.md, which is generated and checked by tools/check_docs, or the
// manual page.
// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include "darkformer/commands/cli_reference.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/man_page.h"
#include "darkformer/commands/version.h"

namespace darkformer {
namespace {

struct DocsOptions {
  bool man = false;

  void visit(auto&& field) { field("man", man, "the manual page instead, for man"); }
};

void docs(const DocsOptions& options, Context& context) {
  context.out << (options.man ? man_page(all_commands(), program_version())
                              : cli_reference(all_commands()));
}

}  // namespace

Command docs_command() {
  return make_command<DocsOptions>({.name = "docs",
                                    .summary = "Print docs/cli.md or the manual page",
                                    .example = "darkformer docs > docs/cli.md",
                                    .hidden = true},
                                   docs);
}

}  // namespace darkformer
