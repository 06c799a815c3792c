// Options to TOML and back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/run_toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/nearest_name.h"
#include "darkformer/base/printable.h"
#include "darkformer/base/read_file.h"
#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/version.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

std::string toml_text(bool value) {
  return value ? "true" : "false";
}

std::string toml_text(std::int64_t value) {
  return std::to_string(value);
}

// The shortest text that reads back as the same bits, with a sign that it is not an integer.
std::string toml_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const std::string shortest(text, end);
  return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
}

std::string toml_text(const std::string& value) {
  std::ostringstream text;
  text << toml::value<std::string>(value);
  return text.str();
}

std::string toml_text(const fs::path& value) {
  return toml_text(value.empty() ? std::string() : fs::absolute(value).lexically_normal().string());
}

template <class T>
std::string toml_text(const std::optional<T>& value) {
  return value ? toml_text(*value) : "";
}

template <class T>
std::string toml_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + toml_text(value);
  }
  return "[" + text + "]";
}

// A TOML value as the texts the command line would have given.
std::vector<std::string> texts_of(const toml::node& node) {
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> texts;
    for (const toml::node& element : *array) {
      const auto inner = texts_of(element);
      texts.insert(texts.end(), inner.begin(), inner.end());
    }
    return texts;
  }
  if (const auto* text = node.as_string()) {
    return {text->get()};
  }
  if (const auto* number = node.as_floating_point()) {
    return {toml_text(number->get())};
  }
  if (const auto* number = node.as_integer()) {
    return {toml_text(number->get())};
  }
  if (const auto* truth = node.as_boolean()) {
    return {toml_text(truth->get())};
  }
  throw UsageError("wanted a text, a number, true or false, or a list of them");
}

std::string where(const fs::path& file, const toml::source_region& region) {
  return concat(file.string(), ":", region.begin.line, ":", region.begin.column, ": ");
}

toml::table parse_file(const fs::path& file) {
  const std::string text = read_file(file);
  try {
    return toml::parse(text, file.string());
  } catch (const toml::parse_error& error) {
    throw UsageError(where(file, error.source()) +
                     "not valid TOML: " + printable(error.description()));
  }
}

void set_field(Field& field, const toml::node& node) {
  const std::vector<std::string> texts = texts_of(node);
  if (!field.is_list() && (node.is_array() || texts.size() != 1)) {
    throw UsageError(field.flag() + ": wanted one value, got a list");
  }
  set_from_text(field, texts);
}

void read_options(const fs::path& file, const toml::table& options, std::vector<Field>& fields) {
  std::vector<std::string> names(fields.size());
  std::transform(fields.begin(), fields.end(), names.begin(),
                 [](const Field& field) { return field.name; });
  for (const auto& [key, node] : options) {
    const std::string name(key.str());
    const auto at = std::find(names.begin(), names.end(), name) - names.begin();
    if (static_cast<std::size_t>(at) == names.size()) {
      throw UsageError(where(file, key.source()) + "unknown option '" + printable(name) + "'" +
                       did_you_mean(name, names));
    }
    Field& field = fields[static_cast<std::size_t>(at)];
    if (field.given) {
      continue;  // the command line wins
    }
    try {
      set_field(field, node);
    } catch (const UsageError& error) {
      throw UsageError(where(file, node.source()) + error.what());
    }
  }
}

// The options that a file gives to the command.
toml::table options_of(const fs::path& file, const std::string& command) {
  toml::table root = parse_file(file);
  const auto written_for = root["command"].value<std::string>();
  if (written_for && *written_for != command) {
    throw UsageError(file.string() + ": written for 'darkformer " + printable(*written_for) +
                     "', not for 'darkformer " + command + "'");
  }
  if (toml::table* options = root["options"].as_table()) {
    return std::move(*options);  // a copy would forget the lines
  }
  root.erase("command");
  return root;
}

std::string typed(const std::vector<std::string>& texts) {
  std::string line;
  for (const std::string& text : texts) {
    line += (line.empty() ? "" : " ") + text;
  }
  return line;
}

Field* find_field(std::vector<Field>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace

std::string command_of(const std::string& text) {
  const std::string key = "\ncommand = ";
  const std::size_t at = ("\n" + text).find(key);
  const std::size_t begin = at == std::string::npos ? text.size() : at + key.size() - 1;
  const std::string value = text.substr(begin, text.find('\n', begin) - begin);
  return value.size() < 2 ? "" : value.substr(1, value.size() - 2);  // quotes of either kind
}

std::string run_toml_text(const std::string& command, const std::vector<Field>& fields) {
  std::ostringstream out;
  out << "# The options of this run, resolved. To repeat it: darkformer " << command
      << " --config run.toml\n"
      << "command = " << toml_text(command) << "\n\n[options]\n";
  for (const Field& field : fields) {
    if (!field.is_empty() && !field.traits.momentary) {
      out << field.name << " = "
          << std::visit([](const auto* pointer) { return toml_text(*pointer); }, field.value)
          << "\n";
    }
  }
  const SystemInfo machine = system_info();
  out << "\n[made_by]\nversion = " << toml_text(std::string(program_version()))
      << "\ncommit = " << toml_text(std::string(program_commit()))
      << "\nlibtorch = " << toml_text(std::string(libtorch_version()))
      << "\ncpu = " << toml_text(machine.cpu) << "\nsystem = " << toml_text(machine.system)
      << "\nthreads = " << threads() << "\n";
  return out.str();
}

void write_run_toml(const fs::path& file,
                    const std::string& command,
                    const std::vector<Field>& fields) {
  write_file_atomically(file, run_toml_text(command, fields));
}

void read_run_toml(const fs::path& file, const std::string& command, std::vector<Field>& fields) {
  read_options(file, options_of(file, command), fields);
}

std::vector<std::pair<std::string, std::string>> kept_options(const fs::path& file) {
  const toml::table root = parse_file(file);
  const toml::table* options = root["options"].as_table();
  std::vector<std::pair<std::string, std::string>> kept;
  for (const auto& [key, node] : options == nullptr ? root : *options) {
    kept.emplace_back(std::string(key.str()), node.is_table() ? "" : typed(texts_of(node)));
  }
  return kept;
}

std::vector<ChangedOption> changed_options(const fs::path& file,
                                           const std::string& command,
                                           const std::vector<Field>& fields) {
  const toml::table kept = options_of(file, command);
  const toml::table present = toml::parse(run_toml_text(command, fields));
  const toml::table& now = *present["options"].as_table();
  std::vector<ChangedOption> changed;
  for (const Field& field : fields) {
    const auto joined = [&](const toml::table& options) {
      const toml::node* node = options.get(field.name);
      return node == nullptr ? std::string() : typed(texts_of(*node));
    };
    // Without `given` it is the default of an option that the file does not know yet.
    if (!field.traits.momentary && field.given && joined(kept) != joined(now)) {
      changed.push_back({&field, joined(kept), joined(now)});
    }
  }
  return changed;
}

void follow_run(const fs::path& config,
                bool out_typed,
                const std::string& command,
                std::vector<Field>& fields) {
  Field* resume = find_field(fields, "resume");
  Field* out = find_field(fields, "out");
  if (resume == nullptr || out == nullptr || !*std::get<bool*>(resume->value)) {
    return;
  }
  const fs::path& folder = *std::get<fs::path*>(out->value);
  const fs::path here = config.has_parent_path() ? config.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!out_typed && config.filename() == "run.toml" && fs::exists(here / "checkpoints", ignored) &&
      !fs::equivalent(here, folder, ignored)) {
    set_from_text(*out, {here.string()});
  }
  if (!folder.empty() && fs::exists(folder / "run.toml", ignored)) {
    read_run_toml(folder / "run.toml", command, fields);
  }
}

}  // namespace darkformer
