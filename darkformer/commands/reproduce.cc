// darkformer reproduce: the paper's experiments, their claims and one page about them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/content_key.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/nearest_name.h"
#include "darkformer/base/read_file.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/report_context.h"
#include "darkformer/commands/run_toml.h"
#include "darkformer/commands/stages.h"
#include "darkformer/report/page.h"
#include "darkformer/reproduce/jobs.h"
#include "darkformer/reproduce/reproduction.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct ReproduceOptions {
  std::vector<std::string> figures;
  std::string scale = "tiny";
  std::optional<std::int64_t> seeds;
  bool quick = false, list = false, report_only = false;
  std::optional<fs::path> model;
  std::vector<fs::path> data, held_out;
  fs::path out = "reproduction";

  void visit(auto&& field) {
    field("figures", figures, "experiments to do",
          {.positional = true, .value_name = "FIGURE", .empty_means = "all"});
    field(
        "scale", scale,
        "size of it all: tiny is the embedded model in one to two hours of two cores, small a day "
        "of a workstation, gemma-2b the paper's own; miniature is for tests",
        {.choices = {"tiny", "small", "gemma-2b", "miniature"}});
    field("seeds", seeds, "seeds of draws and data, from --seed on",
          {.minimum = 1, .empty_means = "what the scale says"});
    field("quick", quick, "the budgets of a few minutes and one seed, with the scale's own model");
    field("model", model, "model folder to start from",
          {.value_name = "MODEL", .empty_means = "the scale's"});
    field("data", data, "texts to train on", {.empty_means = "the scale's"});
    field("held-out", held_out, "texts to measure on", {.empty_means = "the scale's"});
    field("out", out, "folder of the reproduction: runs, claims.json, results.json, report.html",
          {.value_name = "DIR"});
    field("report-only", report_only, "judge and draw what is finished, start nothing");
    field("list", list, "print the experiments with their costs, do nothing");
  }
};

std::vector<std::string> chosen_experiments(const ReproduceOptions& o,
                                            const reproduce::Library& library) {
  std::vector<std::string> names;
  for (const reproduce::Experiment& experiment : library.experiments) {
    names.push_back(experiment.name);
  }
  for (const std::string& figure : o.figures) {
    if (std::find(names.begin(), names.end(), figure) == names.end()) {
      throw UsageError(concat("no experiment '", figure, "'", did_you_mean(figure, names),
                              "; --list shows them"));
    }
  }
  return o.figures.empty() ? names : o.figures;
}

reproduce::Scale chosen_scale(const ReproduceOptions& o, const reproduce::Library& library) {
  reproduce::Scale scale = library.scales.at(o.scale);
  if (o.quick) {
    reproduce::Scale quick = library.scales.at("quick");
    quick.name = o.scale + ", quick";
    quick.model = scale.model, quick.data = scale.data, quick.held_out = scale.held_out;
    return quick;
  }
  return scale;
}

// Children run in another folder.
std::string absolute_file(const fs::path& file, const char* option, const char* hint) {
  require(fs::exists(file), file.string(), ": not found; give ", option, hint);
  return fs::absolute(file).lexically_normal().string();
}

std::vector<std::string> absolute_files(const std::vector<fs::path>& given,
                                        const std::vector<std::string>& usual,
                                        const char* option) {
  if (given.empty() && usual.empty()) {
    throw UsageError(concat("this scale has no text of its own; give ", option, " FILE..."));
  }
  std::vector<std::string> files;
  for (const fs::path& file : given) {
    files.push_back(absolute_file(file, option, " FILE..."));
  }
  for (const std::string& file : given.empty() ? usual : std::vector<std::string>()) {
    files.push_back(
        absolute_file(file, option, " FILE..., or call `make text` in the source tree"));
  }
  return files;
}

reproduce::Inputs inputs_of(const ReproduceOptions& o,
                            const reproduce::Scale& scale,
                            const Context& context) {
  if (!o.model && scale.model.empty()) {
    throw UsageError(concat("--scale ", o.scale, " needs a Gemma folder; give --model MODEL"));
  }
  reproduce::Inputs inputs;
  inputs.data = absolute_files(o.data, scale.data, "--data");
  inputs.held_out = absolute_files(o.held_out, scale.held_out, "--held-out");
  inputs.model = absolute_file(o.model.value_or(scale.model), "--model", " MODEL");
  inputs.seeds = o.seeds.value_or(scale.seeds);
  inputs.first_seed = context.common.seed;
  std::vector<fs::path> all = {inputs.model};
  all.insert(all.end(), inputs.data.begin(), inputs.data.end());
  all.insert(all.end(), inputs.held_out.begin(), inputs.held_out.end());
  inputs.contents = content_key(all);
  return inputs;
}

void print_list(const reproduce::Library& library, std::ostream& out) {
  for (const reproduce::Experiment& experiment : library.experiments) {
    const auto minutes = experiment.minutes.find("tiny");
    out << std::left << std::setw(20) << experiment.name << experiment.paper << ": "
        << experiment.title;
    if (minutes != experiment.minutes.end()) {
      out << " (tiny: about " << minutes->second << " min)";
    }
    out << '\n';
  }
}

OrderedJson list_json(const reproduce::Library& library) {
  OrderedJson list = OrderedJson::array();
  for (const reproduce::Experiment& experiment : library.experiments) {
    list.push_back({{"name", experiment.name},
                    {"paper", experiment.paper},
                    {"title", experiment.title},
                    {"minutes", experiment.minutes}});
  }
  return {{"experiments", list}};
}

std::size_t finished_jobs(const reproduce::Plan& plan, const fs::path& folder) {
  return static_cast<std::size_t>(
      std::count_if(plan.jobs.begin(), plan.jobs.end(),
                    [&](const reproduce::Job& job) { return is_finished(folder, job); }));
}

void print_claims(const reproduce::Reproduction& result,
                  const ReproduceOptions& o,
                  std::ostream& out) {
  const std::size_t all = result.plan.jobs.size(), done = finished_jobs(result.plan, o.out);
  if (done < all) {
    out << "not finished: " << done << " of " << count_text(all, "job") << " done\n";
  }
  for (const reproduce::ClaimResult& claim : result.claims) {
    out << verdict_text(claim.verdict) << ": " << claim.claim.statement << " ("
        << interval_text(claim.interval) << ")\n";
  }
  for (const OrderedJson& statement : result.variance) {
    out << statement.value("verdict", "") << ": " << statement.value("name", "") << " ("
        << statement.value("number", "") << ")\n";
  }
  out << "wrote " << (o.out / "claims.json").string() << " and " << (o.out / "report.html").string()
      << '\n';
}

// A page of what is there, not of what other options would have made.
void check_report_only(const ReproduceOptions& o,
                       const reproduce::Plan& plan,
                       const Context& context) {
  const fs::path file = o.out / "run.toml";
  require(fs::exists(file), o.out.string(),
          ": nothing was reproduced here; leave --report-only out");
  const std::string changed =
      changed_options(read_file(file), run_toml_text(context.command, context.fields),
                      {"figures", "report-only", "out"});
  if (!changed.empty()) {
    throw UsageError(concat(o.out.string(), ": was begun with ", changed, "; --config ",
                            file.string(), " takes its options"));
  }
  require(finished_jobs(plan, o.out) > 0, o.out.string(),
          ": nothing is finished here of these experiments, this model and these texts");
}

// Jobs are too unequal to be counted; the steps of their training say how long they take.
Progress shown_progress(const reproduce::Plan& plan, const fs::path& folder) {
  double total = 0, before = 0;
  for (const reproduce::Job& job : plan.jobs) {
    total += job.work;
    before += is_finished(folder, job) ? job.work : 0;
  }
  return {"reproduce", std::llround(total), {.unit = "steps", .start = std::llround(before)}};
}

void do_jobs(const reproduce::Plan& plan, const ReproduceOptions& o) {
  Progress progress = shown_progress(plan, o.out);
  reproduce::JobOptions options;
  options.folder = fs::absolute(o.out);
  options.program = fs::read_symlink("/proc/self/exe");
  options.at_once = threads();
  options.finished = [&](const reproduce::Job& job) {
    progress.advance(std::llround(job.work));
    progress.note(job.name);
  };
  reproduce::run_jobs(plan.jobs, options);
}

void reproduce_paper(const ReproduceOptions& o, Context& context) {
  const reproduce::Library& library = reproduce::library();
  const std::vector<std::string> experiments = chosen_experiments(o, library);
  if (o.list) {
    context.common.json ? context.print_json(list_json(library)) : print_list(library, context.out);
    return;
  }
  const reproduce::Scale scale = chosen_scale(o, library);
  const reproduce::Inputs inputs = inputs_of(o, scale, context);
  const reproduce::Plan plan = make_plan(library, experiments, scale, inputs);
  check_out_folder(o.out, holds_run_of(context.command));
  if (o.report_only) {
    check_report_only(o, plan, context);
  } else {
    fs::create_directories(o.out);
    context.write_run_toml(o.out / "run.toml");
    do_jobs(plan, o);
  }
  const reproduce::Reproduction result =
      read_reproduction(library, scale, plan, experiments, o.out);
  report::Results page = reproduction_results(result);
  page.command = command_line(context);
  page.settings = settings_of(context);
  write_json(o.out / "claims.json", claims_json(result));
  write_json(o.out / "results.json", report::results_json(page));
  report::write_report(o.out / "results.json", o.out / "report.html");
  if (context.common.json) {
    OrderedJson object;
    object["out"] = o.out.string(), object["jobs"] = plan.jobs.size(),
    object["claims"] = claims_json(result);
    context.print_json(object);
    return;
  }
  print_claims(result, o, context.out);
}

}  // namespace

Command reproduce_command() {
  return make_command<ReproduceOptions>(
      {.name = "reproduce",
       .summary = "Repeat the paper's experiments and judge its statements",
       .example =
           "darkformer reproduce --list\n"
           "darkformer reproduce qkv-only stability --quick --model gemma-2b --data text.jsonl "
           "--held-out held-out.jsonl --out quick",
       .details =
           "Converts, trains and measures every kind of attention under the same conditions, as "
           "many runs at once as --threads, one thread each, and writes claims.json (each "
           "statement with its measure, mean, 95 % interval over seeds and verdict) and "
           "report.html. Called again it goes on: finished runs are not repeated, and the result "
           "is "
           "that of one call. docs/reproduce.md tells what the experiments are. tiny needs the "
           "source tree's model and text (make text), or --model, --data and --held-out.",
       .config = true},
      reproduce_paper);
}

}  // namespace darkformer
