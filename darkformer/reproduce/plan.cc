// Jobs of every run: convert, train, measure. Equal jobs of different experiments become one.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"

namespace darkformer::reproduce {
namespace {

using Grid = std::map<std::string, OrderedJson>;

constexpr const char* kTokensJob = "tokens";

// Grid options that belong to the conversion; all others are training's.
bool is_convert_option(const std::string& name) {
  static const std::set<std::string> kNames = {"features", "tokens", "init", "window", "rank"};
  return kNames.count(name) == 1;
}

bool has_features(const OrderedJson& convert) {
  const std::string kind = convert.value("attention", "exact");
  return kind != "exact" && kind != "window" && kind != "constant" && kind != "random";
}

std::string text_of(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<Grid> combinations(const RunGroup& group, std::int64_t count) {
  std::vector<Grid> result = {{}};
  for (const auto& [option, values] : group.grid) {
    std::vector<Grid> longer;
    for (const Grid& start : result) {
      for (const OrderedJson& value : spread_values(values, count)) {
        longer.push_back(start);
        longer.back()[option] = value;
      }
    }
    result = longer;
  }
  return result;
}

class Planner {
 public:
  Planner(const Library& library, const Scale& scale, const Inputs& inputs)
      : library_(library), scale_(scale), inputs_(inputs) {
    Job tokens;  // alone and first: the others then find the tokens in the cache
    tokens.name = kTokensJob;
    tokens.arguments = {"eval", inputs.model, "--data"};
    append(tokens.arguments, inputs.data);
    append(tokens.arguments, inputs.held_out);
    append(tokens.arguments, {"--context", "64", "--max-tokens", "64", "--no-attribution"});
    finish(tokens);
    plan_.jobs.push_back(tokens);
    tokens_ = tokens.name;
  }

  void add(const Experiment& experiment) {
    for (const RunGroup& group : experiment.groups) {
      const std::int64_t seeds = group.one_seed ? 1 : inputs_.seeds;
      for (std::int64_t i = 0; i < seeds; ++i) {
        for (const Grid& grid : combinations(group, scale_.grid_values)) {
          for (const std::string& arm : group.arms) {
            add_run(experiment, group, library_.arms.at(arm), inputs_.first_seed + i, grid);
          }
        }
      }
    }
  }

  Plan take() { return std::move(plan_); }

 private:
  static void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }

  // Appends what every job has, and names it after what it does.
  void finish(Job& job) const {
    KeyBuilder key;
    key.add(inputs_.contents);
    for (const std::string& argument : job.arguments) {
      key.add(argument);
    }
    job.name += "-" + to_hex(key.value()).substr(0, 8);
    if (!job.makes.empty()) {
      job.makes += "/" + job.name;
      append(job.arguments, {"--out", job.makes});
    }
    if (job.resumes) {
      job.arguments.push_back("--resume");
    }
    append(job.arguments, {"--threads", "1", "--json"});
  }

  std::string put(Job job) {
    finish(job);
    if (job.name.rfind(kTokensJob, 0) != 0 && !job.alone) {
      job.needs.push_back(tokens_);
    }
    if (names_.insert(job.name).second) {
      plan_.jobs.push_back(job);
    }
    return job.name;
  }

  void add_run(const Experiment& experiment,
               const RunGroup& group,
               const Arm& arm,
               std::int64_t seed,
               const Grid& grid) {
    PlannedRun run;
    run.experiment = experiment.name, run.group = group.name, run.command = group.command;
    run.arm = arm.name, run.seed = seed, run.grid = grid;
    if (group.command == "finetune" || group.command == "pretrain") {
      plan_training(group, arm, run);
    } else if (group.command == "convert") {
      const auto [model, need] = converted(arm, run);
      run.main_job = need;
      if (group.evaluate) {
        run.evaluation = evaluation(model, need, arm.name);
      }
    } else if (group.command == "covariance") {
      OrderedJson options = scale_.covariance;
      merge(options, group.options);
      for (const auto& [name, value] : grid) {
        options[name] = value;
      }
      run.main_job = spectra(inputs_.model, {}, arm.name, options);
      run.settings = options;
    } else if (group.command == "bench") {
      run.main_job = bench(group, seed, run);
    } else {
      run.main_job = variance(seed);
    }
    plan_.runs.push_back(run);
  }

  static void merge(OrderedJson& options, const OrderedJson& more) {
    for (const auto& [name, value] : more.items()) {
      options[name] = value;
    }
  }

  // The conversion's options: the scale's, the arm's, the grid's.
  OrderedJson convert_options(const Arm& arm, const Grid& grid) const {
    OrderedJson options = scale_.convert;
    merge(options, arm.convert);
    for (const auto& [name, value] : grid) {
      if (is_convert_option(name)) {
        options[name] = value;
      }
    }
    if (!has_features(options)) {
      options.erase("features");
    }
    return options;
  }

  // The folder of the model an arm starts from and the job that makes it (none: the base itself).
  std::pair<std::string, std::string> converted(const Arm& arm, PlannedRun& run) {
    if (arm.convert.empty()) {
      return {inputs_.model, ""};
    }
    OrderedJson options = convert_options(arm, run.grid);
    const bool reads =
        options.value("centre", false) || options.value("init", "identity") != "identity";
    if (!reads) {  // how much of a text a scale reads means nothing to what reads none
      options.erase("tokens"), options.erase("context");
    }
    merge(run.settings, options);
    Job job;
    job.name = concat("convert-", arm.name, "-s", run.seed);
    // The paper converts and trains; fitting first is ours.
    job.arguments = {"convert", inputs_.model, "--no-fit"};
    append(job.arguments, option_arguments(options));
    if (reads) {
      job.arguments.push_back("--data");
      append(job.arguments, inputs_.data);
    }
    append(job.arguments, {"--seed", std::to_string(run.seed)});
    job.makes = "models";
    const std::string name = put(job);
    return {"models/" + name, name};
  }

  OrderedJson training_options(const RunGroup& group, const Arm& arm, const PlannedRun& run) const {
    OrderedJson options;
    if (group.command == "pretrain") {
      options = scale_.pretrain;
      const OrderedJson convert = convert_options(arm, run.grid);
      for (const char* name : {"attention", "features", "window", "rank"}) {
        if (convert.contains(name)) {
          options[name] = convert[name];
        }
      }
    }
    merge(options, scale_.train);
    merge(options, group.options);
    merge(options, arm.train);
    for (const auto& [name, value] : run.grid) {
      if (!is_convert_option(name)) {
        options[name] = value;
      }
    }
    options["steps"] = run.steps;
    if (options.value("warmup", std::int64_t{0}) > run.steps) {
      options["warmup"] = run.steps;
    }
    options["checkpoint-every"] = checkpoint_every(run.steps);
    options["keep"] = group.spectra ? scale_.checkpoints + 1 : 1;
    options["held-out"] = 0;
    return options;
  }

  std::int64_t checkpoint_every(std::int64_t steps) const {
    return std::max<std::int64_t>(1, steps / scale_.checkpoints);
  }

  void plan_training(const RunGroup& group, const Arm& arm, PlannedRun& run) {
    run.steps = scale_.budgets.at(group.budget);
    Job job;
    job.name = concat(group.command, "-", arm.name, "-s", run.seed);
    job.arguments = {group.command};
    std::string start;
    if (group.command == "finetune") {
      const auto [model, need] = converted(arm, run);
      start = model;
      job.arguments.push_back(model);
      if (!need.empty()) {
        job.needs.push_back(need);
      }
    } else {
      append(job.arguments, {"--tokenizer", inputs_.model});
    }
    job.arguments.push_back("--data");
    append(job.arguments, inputs_.data);
    const OrderedJson options = training_options(group, arm, run);
    merge(run.settings, options);
    append(job.arguments, option_arguments(options));
    append(job.arguments, {"--seed", std::to_string(run.seed)});
    job.makes = "runs", job.resumes = true;
    job.work = static_cast<double>(run.steps);
    const std::vector<std::string> needs = job.needs;
    run.main_job = put(job);
    run.folder = "runs/" + run.main_job;
    if (group.evaluate) {
      run.evaluation = evaluation(run.folder + "/final", run.main_job, arm.name);
    }
    if (group.spectra) {
      plan_spectra(start, needs, arm, run);
    }
  }

  void plan_spectra(const std::string& start,
                    const std::vector<std::string>& start_needs,
                    const Arm& arm,
                    PlannedRun& run) {
    const std::int64_t every = checkpoint_every(run.steps);
    for (const double share : scale_.spectra) {
      if (share == 0) {
        run.spectra.emplace_back(0, spectra(start, start_needs, arm.name, scale_.covariance));
        continue;
      }
      const auto steps = static_cast<double>(run.steps);
      const std::int64_t step = std::max<std::int64_t>(
          every, std::llround(share * steps / static_cast<double>(every)) * every);
      run.spectra.emplace_back(share, spectra(concat(run.folder, "/checkpoints/step-", step),
                                              {run.main_job}, arm.name, scale_.covariance));
    }
  }

  std::string evaluation(const std::string& model,
                         const std::string& need,
                         const std::string& arm) {
    Job job;
    job.name = "eval-" + arm;
    job.arguments = {"eval", model, "--data"};
    append(job.arguments, inputs_.held_out);
    append(job.arguments, option_arguments(scale_.evaluate));
    job.arguments.push_back("--no-attribution");
    if (!need.empty()) {
      job.needs.push_back(need);
    }
    return put(job);
  }

  std::string spectra(const std::string& model,
                      const std::vector<std::string>& needs,
                      const std::string& arm,
                      const OrderedJson& options) {
    Job job;
    job.name = "spectra-" + arm;
    job.arguments = {"spectra", model, "--data"};
    append(job.arguments, inputs_.data);
    job.arguments.push_back("--against");
    append(job.arguments, inputs_.held_out);
    append(job.arguments, option_arguments(options));
    job.needs = needs;
    return put(job);
  }

  std::string bench(const RunGroup& group, std::int64_t seed, PlannedRun& run) {
    Job job;
    job.name = concat("bench-s", seed);
    job.arguments = {"bench", "attention", "--no-rivals"};
    run.settings = scale_.bench;
    merge(run.settings, group.options);
    append(job.arguments, option_arguments(run.settings));
    append(job.arguments, {"--seed", std::to_string(seed)});
    job.alone = true;
    return put(job);
  }

  std::string variance(std::int64_t seed) {
    Job job;
    job.name = concat("variance-s", seed);
    job.arguments = {"variance", "--seed", std::to_string(seed)};
    job.makes = "variance";
    return put(job);
  }

  const Library& library_;
  const Scale& scale_;
  const Inputs& inputs_;
  Plan plan_;
  std::string tokens_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<std::string> option_arguments(const OrderedJson& options) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean()) {
      arguments.push_back((value.get<bool>() ? "--" : "--no-") + name);
      continue;
    }
    arguments.push_back("--" + name);
    for (const OrderedJson& each : value.is_array() ? value : OrderedJson::array({value})) {
      arguments.push_back(text_of(each));
    }
  }
  return arguments;
}

std::vector<OrderedJson> spread_values(const std::vector<OrderedJson>& values, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(values.size());
  if (count <= 0 || count >= size) {
    return values;
  }
  std::vector<OrderedJson> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = count == 1 ? 0 : i * (size - 1) / (count - 1);
    chosen.push_back(values[static_cast<std::size_t>(at)]);
  }
  return chosen;
}

Plan make_plan(const Library& library,
               const std::vector<std::string>& experiments,
               const Scale& scale,
               const Inputs& inputs) {
  Planner planner(library, scale, inputs);
  for (const Experiment& experiment : library.experiments) {
    if (std::find(experiments.begin(), experiments.end(), experiment.name) != experiments.end()) {
      planner.add(experiment);
    }
  }
  return planner.take();
}

}  // namespace darkformer::reproduce
