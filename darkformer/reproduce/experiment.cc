// JSON to experiments, arms and scales, with errors that name the file and the key.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/reproduce/experiment.h"

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/reproduce/embedded.h"

namespace darkformer::reproduce {
namespace {

using Pairs = std::vector<std::pair<std::string, OrderedJson>>;

// object[key] as a list or an object, an empty one where it is missing.
OrderedJson list_of(const OrderedJson& object, const char* key, const std::string& source) {
  const OrderedJson value = object.value(key, OrderedJson::array());
  require(value.is_array(), source, ": \"", key, "\" must be a list");
  return value;
}

OrderedJson object_of(const OrderedJson& object, const char* key, const std::string& source) {
  const OrderedJson value = object.value(key, OrderedJson::object());
  require(value.is_object(), source, ": \"", key, "\" must be an object");
  return value;
}

std::vector<std::string> texts_of(const OrderedJson& object,
                                  const char* key,
                                  const std::string& source) {
  std::vector<std::string> texts;
  for (const OrderedJson& value : list_of(object, key, source)) {
    require(value.is_string(), source, ": \"", key, "\" must be a list of strings");
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

Pairs pairs_of(const OrderedJson& object, const char* key, const std::string& source) {
  Pairs pairs;
  const OrderedJson values = object_of(object, key, source);
  for (const auto& [name, value] : values.items()) {
    pairs.emplace_back(name, value);
  }
  return pairs;
}

// The keys an object may have: a misspelt one must not be ignored.
void check_keys(const OrderedJson& object,
                const std::vector<std::string>& known,
                const std::string& source) {
  require(object.is_object(), source, ": must be an object");
  for (const auto& item : object.items()) {
    require(std::find(known.begin(), known.end(), item.key()) != known.end(), source,
            ": unknown key \"", item.key(), "\"");
  }
}

std::vector<Term> parse_terms(const OrderedJson& claim,
                              const char* key,
                              const std::string& source) {
  std::vector<Term> terms;
  for (const OrderedJson& term : list_of(claim, key, source)) {
    require(term.is_array() && term.size() == 3 && term[0].is_number() && term[1].is_string() &&
                term[2].is_string(),
            source, ": \"", key, "\" must be a list of [weight, run, quantity]");
    terms.push_back({term[0], term[1], term[2]});
  }
  return terms;
}

RunGroup parse_group(const OrderedJson& json, const std::string& source) {
  check_keys(
      json,
      {"name", "command", "budget", "arms", "options", "grid", "one_seed", "evaluate", "spectra"},
      source);
  RunGroup group;
  group.name = get_value<std::string>(json, "name", source);
  const std::string where = concat(source, ": runs \"", group.name, "\"");
  group.command = get_value<std::string>(json, "command", where);
  group.budget = find_value<std::string>(json, "budget", where).value_or("");
  group.arms = texts_of(json, "arms", where);
  group.options = object_of(json, "options", where);
  const OrderedJson grid = object_of(json, "grid", where);
  for (const auto& [option, values] : grid.items()) {
    require(values.is_array() && !values.empty(), where, ": the grid of \"", option,
            "\" must be a list of values");
    group.grid[option] = values.get<std::vector<OrderedJson>>();
  }
  group.one_seed = find_value<bool>(json, "one_seed", where).value_or(false);
  group.evaluate = find_value<bool>(json, "evaluate", where).value_or(true);
  group.spectra = find_value<bool>(json, "spectra", where).value_or(false);
  return group;
}

Claim parse_claim(const OrderedJson& json, const std::string& source) {
  check_keys(json, {"name", "statement", "measure", "terms", "over", "where", "sample", "above"},
             source);
  Claim claim;
  claim.name = get_value<std::string>(json, "name", source);
  const std::string where = concat(source, ": claim \"", claim.name, "\"");
  claim.statement = get_value<std::string>(json, "statement", where);
  claim.measure = get_value<std::string>(json, "measure", where);
  claim.terms = parse_terms(json, "terms", where);
  claim.over = parse_terms(json, "over", where);
  claim.where = pairs_of(json, "where", where);
  claim.sample = find_value<std::string>(json, "sample", where).value_or("seed");
  claim.above = find_value<double>(json, "above", where).value_or(0);
  require(!claim.terms.empty(), where, ": has no \"terms\"");
  return claim;
}

Chart parse_chart(const OrderedJson& json, const std::string& source) {
  check_keys(json,
             {"title", "group", "quantity", "x", "y_label", "note", "where", "log_x", "log_y"},
             source);
  Chart chart;
  chart.title = get_value<std::string>(json, "title", source);
  const std::string where = concat(source, ": chart \"", chart.title, "\"");
  chart.group = get_value<std::string>(json, "group", where);
  chart.quantity = get_value<std::string>(json, "quantity", where);
  chart.x = find_value<std::string>(json, "x", where).value_or("step");
  chart.y_label = find_value<std::string>(json, "y_label", where).value_or(chart.quantity);
  chart.note = find_value<std::string>(json, "note", where).value_or("");
  chart.where = pairs_of(json, "where", where);
  chart.log_x = find_value<bool>(json, "log_x", where).value_or(false);
  chart.log_y = find_value<bool>(json, "log_y", where).value_or(false);
  return chart;
}

Scale parse_scale(const OrderedJson& json, const std::string& name, const std::string& file) {
  const std::string source = concat(file, ": scale \"", name, "\"");
  check_keys(json,
             {"like", "model", "data", "held_out", "seeds", "grid_values", "checkpoints", "train",
              "pretrain", "convert", "evaluate", "covariance", "bench", "budgets", "spectra"},
             source);
  Scale scale;
  scale.name = name;
  scale.model = find_value<std::string>(json, "model", source).value_or("");
  scale.data = texts_of(json, "data", source);
  scale.held_out = texts_of(json, "held_out", source);
  scale.seeds = get_value<std::int64_t>(json, "seeds", source);
  scale.grid_values = find_value<std::int64_t>(json, "grid_values", source).value_or(0);
  scale.checkpoints = get_value<std::int64_t>(json, "checkpoints", source);
  scale.train = object_of(json, "train", source);
  scale.pretrain = object_of(json, "pretrain", source);
  scale.convert = object_of(json, "convert", source);
  scale.evaluate = object_of(json, "evaluate", source);
  scale.covariance = object_of(json, "covariance", source);
  scale.bench = object_of(json, "bench", source);
  const OrderedJson budgets = object_of(json, "budgets", source);
  for (const auto& [budget, steps] : budgets.items()) {
    require(steps.is_number_integer() && steps.get<std::int64_t>() > 0, source, ": budget \"",
            budget, "\" must be a number of steps");
    scale.budgets[budget] = steps;
  }
  for (const OrderedJson& share : list_of(json, "spectra", source)) {
    require(share.is_number(), source, ": \"spectra\" must be a list of shares of a run");
    scale.spectra.push_back(share);
  }
  return scale;
}

// With what it takes over from the scales it is like, which stand above it.
OrderedJson whole_scale(const OrderedJson& all,
                        const std::string& name,
                        const std::string& source) {
  const OrderedJson& own = all[name];
  const auto like = find_value<std::string>(own, "like", source);
  if (!like) {
    return own;
  }
  require(all.contains(*like) && *like != name, source, ": \"", name,
          "\" is like no scale: ", *like);
  OrderedJson whole = whole_scale(all, *like, source);
  whole.merge_patch(own);
  return whole;
}

void check_terms(const Library& library, const Experiment& experiment, const Claim& claim) {
  std::vector<Term> terms = claim.terms;
  terms.insert(terms.end(), claim.over.begin(), claim.over.end());
  for (const Term& term : terms) {
    const RunSelector runs = parse_selector(term.run, experiment.name);
    bool found = false;
    for (const Experiment& other : library.experiments) {
      for (const RunGroup& group : other.groups) {
        const bool here = other.name == runs.experiment && group.name == runs.group;
        found = found || (here && std::count(group.arms.begin(), group.arms.end(), runs.arm) > 0);
      }
    }
    require(found, experiment.name, ": claim \"", claim.name,
            "\" is about runs that are not: ", term.run);
  }
}

void check_group(const Library& library, const Experiment& experiment, const RunGroup& group) {
  static const std::vector<std::string> kCommands = {"finetune",   "pretrain", "convert",
                                                     "covariance", "bench",    "variance"};
  require(std::find(kCommands.begin(), kCommands.end(), group.command) != kCommands.end(),
          experiment.name, ": runs \"", group.name, "\": unknown command \"", group.command, "\"");
  for (const std::string& arm : group.arms) {
    require(library.arms.count(arm) == 1, experiment.name, ": unknown arm \"", arm, "\"");
  }
  for (const auto& [name, scale] : library.scales) {
    require(group.budget.empty() || scale.budgets.count(group.budget) == 1, experiment.name,
            ": scale \"", name, "\" has no budget \"", group.budget, "\"");
  }
}

Library parse_embedded() {
  Library result;
  std::map<std::string, Experiment> found;
  std::vector<std::string> order;
  for (const EmbeddedFile& file : embedded_experiments()) {
    const std::string path(file.path);
    const OrderedJson json = parse_ordered_json(file.text, path);
    if (path == "arms.json") {
      result.arms = parse_arms(json, path);
    } else if (path == "scales.json") {
      result.scales = parse_scales(json, path);
    } else if (path == "order.json") {
      order = json.get<std::vector<std::string>>();
    } else {
      const Experiment experiment = parse_experiment(json, path);
      found[experiment.name] = experiment;
    }
  }
  for (const std::string& name : order) {
    require(found.count(name) == 1, "order.json: no experiment \"", name, "\"");
    result.experiments.push_back(found[name]);
  }
  require(found.size() == order.size(), "order.json: leaves experiments out");
  check_library(result);
  return result;
}

}  // namespace

RunSelector parse_selector(const std::string& text, const std::string& experiment) {
  RunSelector runs;
  const auto colon = text.find(':'), question = std::min(text.find('?'), text.size());
  const auto start = colon == std::string::npos ? 0 : colon + 1;
  const auto slash = text.find('/', start);
  require(slash < question, "\"", text, "\": wanted group/arm");
  runs.experiment = colon == std::string::npos ? experiment : text.substr(0, colon);
  runs.group = text.substr(start, slash - start);
  runs.arm = text.substr(slash + 1, question - slash - 1);
  if (question < text.size()) {
    const auto equals = text.find('=', question);
    require(equals != std::string::npos, "\"", text, "\": wanted ?option=value at its end");
    runs.grid.emplace_back(text.substr(question + 1, equals - question - 1),
                           parse_ordered_json(text.substr(equals + 1), text));
  }
  return runs;
}

Experiment parse_experiment(const OrderedJson& json, const std::string& source) {
  check_keys(json,
             {"name", "title", "paper", "statement", "text", "minutes", "runs", "claims", "charts"},
             source);
  Experiment experiment;
  experiment.name = get_value<std::string>(json, "name", source);
  experiment.title = get_value<std::string>(json, "title", source);
  experiment.paper = get_value<std::string>(json, "paper", source);
  experiment.statement = get_value<std::string>(json, "statement", source);
  experiment.text = texts_of(json, "text", source);
  const OrderedJson minutes = object_of(json, "minutes", source);
  for (const auto& [scale, minutes] : minutes.items()) {
    require(minutes.is_number(), source, ": \"minutes\" must be numbers");
    experiment.minutes[scale] = minutes;
  }
  for (const OrderedJson& group : list_of(json, "runs", source)) {
    experiment.groups.push_back(parse_group(group, source));
  }
  for (const OrderedJson& claim : list_of(json, "claims", source)) {
    experiment.claims.push_back(parse_claim(claim, source));
  }
  for (const OrderedJson& chart : list_of(json, "charts", source)) {
    experiment.charts.push_back(parse_chart(chart, source));
  }
  return experiment;
}

std::map<std::string, Arm> parse_arms(const OrderedJson& json, const std::string& source) {
  std::map<std::string, Arm> arms;
  for (const auto& [name, value] : json.items()) {
    const std::string where = concat(source, ": arm \"", name, "\"");
    check_keys(value, {"label", "convert", "train"}, where);
    arms[name] = {name, get_value<std::string>(value, "label", where),
                  object_of(value, "convert", where), object_of(value, "train", where)};
  }
  return arms;
}

std::map<std::string, Scale> parse_scales(const OrderedJson& json, const std::string& source) {
  std::map<std::string, Scale> scales;
  for (const auto& [name, value] : json.items()) {
    scales[name] = parse_scale(whole_scale(json, name, source), name, source);
  }
  return scales;
}

void check_library(const Library& library) {
  for (const Experiment& experiment : library.experiments) {
    for (const RunGroup& group : experiment.groups) {
      check_group(library, experiment, group);
    }
    for (const Claim& claim : experiment.claims) {
      check_terms(library, experiment, claim);
    }
    for (const Chart& chart : experiment.charts) {
      const bool found = std::any_of(experiment.groups.begin(), experiment.groups.end(),
                                     [&](const RunGroup& g) { return g.name == chart.group; });
      require(found, experiment.name, ": chart \"", chart.title, "\": no runs \"", chart.group,
              "\"");
    }
  }
}

const Library& library() {
  static const Library kLibrary = parse_embedded();
  return kLibrary;
}

}  // namespace darkformer::reproduce
