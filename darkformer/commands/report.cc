// darkformer report: training runs, or a results file, as one page.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/run_curves.h"
#include "darkformer/report/page.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<fs::path> runs;
  fs::path out;

  void visit(auto&& field) {
    field("run", runs,
          "run folders of finetune and pretrain, side by side; or one results.json, or the folder "
          "it is in, as analyze, variance and linearize write them",
          {.positional = true, .required = true});
    field("out", out, "page to write", {.required = true, .value_name = "FILE.html"});
  }
};

// The results file that a path means; empty where it is a run.
fs::path results_file(const fs::path& path) {
  require(fs::exists(path), path.string(), ": there is no such file or folder");
  if (!fs::is_directory(path)) {
    return path;
  }
  if (fs::exists(path / "log.jsonl")) {
    return {};
  }
  require(fs::exists(path / "results.json"), path.string(),
          ": has neither log.jsonl, as the folder of a training run, nor results.json");
  return path / "results.json";
}

// Folders of the same name are told apart by the paths that were given.
std::vector<RunRecord> read_runs(const std::vector<fs::path>& folders) {
  std::vector<RunRecord> runs;
  for (const fs::path& folder : folders) {
    runs.push_back(read_run(folder));
  }
  std::vector<std::string> names(runs.size());
  std::transform(runs.begin(), runs.end(), names.begin(),
                 [](const RunRecord& run) { return run.name; });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (std::count(names.begin(), names.end(), names[i]) > 1) {
      runs[i].name = folders[i].string();
    }
  }
  return runs;
}

report::Results results_of(const std::vector<RunRecord>& runs, const Context& context) {
  report::Results results;
  results.kind = "runs";
  results.title =
      runs.size() == 1 ? "The training run " + runs[0].name : concat(runs.size(), " training runs");
  results.summary = "From the logs of the runs, as far as they had come.";
  results.sections = run_sections(runs);
  results.command = context.command_line();
  results.settings = context.settings();
  return results;
}

bool holds_page(const fs::path& path) {
  return MappedFile(path).text().starts_with("<!doctype html>");
}

void write_page(const ReportOptions& options, Context& context) {
  check_out_file(options.out, holds_page, "page");
  std::vector<fs::path> results(options.runs.size());
  std::transform(options.runs.begin(), options.runs.end(), results.begin(), results_file);
  const auto found = std::find_if(results.begin(), results.end(),
                                  [](const fs::path& file) { return !file.empty(); });
  if (found != results.end() && results.size() > 1) {
    throw UsageError(found->string() +
                     ": a results file is a page of its own; give it alone, or runs only");
  }
  if (found != results.end()) {
    report::write_report(*found, options.out);
  } else {
    const std::vector<RunRecord> runs = read_runs(options.runs);
    write_file_atomically(
        options.out,
        report::report_page(report::results_json(results_of(runs, context)), "report"));
  }
  if (context.common.json) {
    context.print_json(
        {{"out", options.out.string()}, {"runs", found == results.end() ? results.size() : 0}});
  } else {
    context.out << "wrote " << options.out.string() << '\n';
  }
}

}  // namespace

Command report_command() {
  return make_command<ReportOptions>(
      {.name = "report",
       .summary = "Draw training runs, or a results file again, as one page",
       .example = "darkformer report run tiny --out curves.html\n"
                  "darkformer report analysis/results.json --out analysis.html",
       .details =
           "Of training runs: loss, accuracy, learning rate and all else that log.jsonl has, "
           "one colour a run, what each has reached and how their settings differ; a run may "
           "still be going on. Of a results file: its page, without computing "
           "anything. The page opens offline."},
      write_page);
}

}  // namespace darkformer
