// Results on disk, options compared.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/stages.h"

#include <map>
#include <set>
#include <sstream>

#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"
#include "darkformer/base/read_file.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/run_toml.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kNoMatter = {"threads", "json", "verbose", "quiet", "cache"};

// The lines "name = value" of the table [options] of a run.toml.
std::map<std::string, std::string> options_of(const std::string& text) {
  std::map<std::string, std::string> options;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) {
      inside = line == "[options]";
    }
    const std::size_t sign = line.find(" = ");
    if (inside && sign != std::string::npos && !kNoMatter.contains(line.substr(0, sign))) {
      options[line.substr(0, sign)] = line.substr(sign + 3);
    }
  }
  return options;
}

}  // namespace

std::string changed_options(const std::string& before, const std::string& now) {
  const auto old_options = options_of(before), new_options = options_of(now);
  const auto value = [](const auto& options, const std::string& name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string("not given") : found->second;
  };
  std::string text;
  const auto compare = [&](const std::string& name) {
    const std::string was = value(old_options, name), is = value(new_options, name);
    if (was != is) {
      text += concat(text.empty() ? "" : "; ", name, " = ", was, ", now ", is);
    }
  };
  for (const auto& [name, option] : old_options) {
    compare(name);
  }
  for (const auto& [name, option] : new_options) {
    if (!old_options.contains(name)) {
      compare(name);
    }
  }
  return text;
}

Stages::Stages(fs::path folder, const Context& context)
    : folder_(std::move(folder)), context_(context) {
  check_out_folder(folder_, holds_run_of(context.command));
  const fs::path file = folder_ / "run.toml";
  const std::string now = run_toml_text(context.command, context.fields);
  if (!fs::exists(file)) {
    fs::create_directories(folder_);
    context.write_run_toml(file);
    return;
  }
  const std::string before = read_file(file);
  const std::string changed = changed_options(before, now);
  if (!changed.empty()) {
    throw UsageError(concat(folder_.string(), ": was begun with ", changed,
                            "; the same options go on, another --out starts anew"));
  }
}

OrderedJson Stages::run(const std::string& name, const std::function<OrderedJson()>& work) const {
  const fs::path file = folder_ / "stages" / (name + ".json");
  if (fs::exists(file)) {
    log_debug(name, ": done before");
    return read_ordered_json(file);
  }
  const std::string go_on =
      concat("stopped during ", name, "; the same command goes on from there");
  context_.stop_if_interrupted(go_on);
  log_info("stage: ", name);
  try {
    OrderedJson result = work();
    fs::create_directories(file.parent_path());
    write_json(file, result);
    return result;
  } catch (const Interrupted&) {
    throw Interrupted(go_on);
  }
}

}  // namespace darkformer
