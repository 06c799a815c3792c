// Results on disk, options compared.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/stages.h"

#include <sstream>

#include "darkformer/base/checksum.h"
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
std::map<std::string, std::string> options_of(const std::string& text,
                                              const std::set<std::string>& free) {
  std::map<std::string, std::string> options;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) {
      inside = line == "[options]";
    }
    const std::size_t sign = line.find(" = ");
    if (!inside || sign == std::string::npos) {
      continue;
    }
    const std::string name = line.substr(0, sign);
    if (!kNoMatter.contains(name) && !free.contains(name)) {
      options[name] = line.substr(sign + 3);
    }
  }
  return options;
}

// What a finished stage left; nothing for one that is not.
std::optional<OrderedJson> read_stage(const fs::path& file) {
  if (!fs::exists(file)) {
    return std::nullopt;
  }
  try {
    return read_ordered_json(file);
  } catch (const Error& error) {
    fail(error.what(), "; without this file the stage is done again");
  }
}

}  // namespace

std::string changed_options(const std::string& before,
                            const std::string& now,
                            const std::set<std::string>& free) {
  const auto old_options = options_of(before, free), new_options = options_of(now, free);
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

Stages::Stages(fs::path folder,
               const Context& context,
               const std::map<std::string, std::string>& first_read)
    : folder_(std::move(folder)), context_(context) {
  check_out_folder(folder_, holds_run_of(context.command));
  const fs::path file = folder_ / "run.toml";
  const std::string now = run_toml_text(context.command, context.fields);
  fs::create_directories(folder_);
  lock_.emplace(folder_);
  const std::string before = fs::exists(file) ? read_file(file) : now;
  std::set<std::string> free;
  for (const auto& [option, stage] : first_read) {
    if (!fs::exists(file_of(stage))) {
      free.insert(option);
    }
  }
  const std::string changed = changed_options(before, now, free);
  if (!changed.empty()) {
    throw UsageError(concat(folder_.string(), ": was begun with ", changed,
                            "; the same options go on, another --out starts anew"));
  }
  context.write_run_toml(file);
}

fs::path Stages::file_of(const std::string& stage) const {
  return folder_ / "stages" / (stage + ".json");
}

void Stages::keep_inputs(const std::map<std::string, std::uint64_t>& keys) const {
  const fs::path file = file_of("inputs");
  OrderedJson now;
  for (const auto& [option, key] : keys) {
    now[option] = to_hex(key);
  }
  const OrderedJson before = read_stage(file).value_or(now);
  for (const auto& [option, key] : keys) {
    if (before.value(option, OrderedJson()) != now[option]) {
      throw UsageError(concat(folder_.string(), ": ", option,
                              " has changed since this was begun; another --out starts anew"));
    }
  }
  fs::create_directories(file.parent_path());
  write_json(file, now);
}

OrderedJson Stages::run(const std::string& name, const std::function<OrderedJson()>& work) const {
  const fs::path file = file_of(name);
  if (const auto done = read_stage(file)) {
    log_debug(name, ": done before");
    return *done;
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
