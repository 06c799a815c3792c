// darkformer variance: the paper's theory, checked numerically; tables, charts and words.
// SPDX-License-Identifier: Apache-2.0
#include <ostream>

#include "darkformer/commands/command.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/report_context.h"
#include "darkformer/commands/variance_parts.h"
#include "darkformer/report/page.h"

namespace darkformer {
namespace {

struct VarianceOptions {
  std::filesystem::path out = "variance";

  void visit(auto&& field) {
    field("out", out, "folder for report.html and results.json", {.value_name = "DIR"});
  }
};

void variance(const VarianceOptions& o, Context& context) {
  check_out_folder(o.out, holds_results_of("variance"));
  constexpr int kTotal = VarianceRun::kTicks * VarianceRun::kParts;
  Progress progress = context.progress("variance", kTotal);
  std::filesystem::create_directories(o.out);  // before the work: it may not be possible
  VarianceRun run;
  run.seed = static_cast<std::uint64_t>(context.common.seed);
  run.tick = [&] {
    context.stop_if_interrupted("stopped; no report was written");
    progress.advance();
  };
  run.results.kind = "variance";
  run.results.title = "The variance of random-feature attention";
  run.results.summary =
      "Every statement of the paper about random features, checked: what holds, what needs a "
      "caveat, "
      "and by how much.";
  add_unbiasedness(run);
  add_optimality(run);
  add_measured_variance(run);
  add_errors(run);
  run.results.command = context.command_line();
  run.results.settings = context.settings();

  const std::filesystem::path results = o.out / "results.json", page = o.out / "report.html";
  write_json(results, report::results_json(run.results));
  report::write_report(results, page);
  if (context.common.json) {
    OrderedJson object;
    object["out"] = o.out.string();
    object["statements"] = report::results_json(run.results)["statements"];
    context.print_json(object);
    return;
  }
  for (const report::Statement& s : run.results.statements) {
    context.out << s.verdict << ": " << s.name << " (" << s.number << ")\n";
  }
  context.out << "wrote " << results.string() << " and " << page.string() << '\n';
}

}  // namespace

Command variance_command() {
  return make_command<VarianceOptions>(
      {.name = "variance",
       .summary = "Check the paper's theory of random features numerically",
       .example = "darkformer variance --out variance",
       .details =
           "Runs in less than a minute and writes report.html, one page that opens offline, and "
           "results.json, the numbers behind it: unbiasedness, the optimal proposal and its "
           "limits, "
           "predicted against measured variance, and errors against the number of features "
           "for every "
           "estimator. docs/theory.md tells what comes out."},
      variance);
}

}  // namespace darkformer
