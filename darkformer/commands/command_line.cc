// CLI11 does the parsing and the help pages; this file feeds it the fields and rewords its errors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/base/nearest_name.h"
#include "darkformer/commands/cli_reference.h"
#include "darkformer/commands/run_toml.h"
#include "darkformer/commands/version.h"

namespace darkformer {
namespace {

constexpr std::size_t kHelpColumn = 30;

std::string help_hint(const std::string& command) {
  return "; see 'darkformer " + (command.empty() ? "" : command + " ") + "--help'";
}

// The nearest known name, or where to look when there is none.
std::string advice(const std::string& typed,
                   const std::vector<std::string>& known,
                   const std::string& command) {
  const std::string nearest = did_you_mean(typed, known);
  return nearest.empty() ? help_hint(command) : nearest;
}

// "-n,--count", "count" for a positional, "--fast,!--no-fast" for a flag that is on by default.
std::string cli_name(const Field& field) {
  if (field.traits.positional) {
    return field.value_name();
  }
  std::string name = field.flag();
  if (field.traits.letter != 0) {
    name = std::string("-") + field.traits.letter + "," + name;
  }
  return field.is_flag() && field.default_text() == "true" ? name + ",!--no-" + field.name : name;
}

// The user forgot a value and the next flag was taken for it.
void refuse_flag_as_value(const Field& field,
                          const std::vector<std::string>& texts,
                          const std::vector<std::string>& flags) {
  for (const std::string& text : texts) {
    if (std::find(flags.begin(), flags.end(), text) != flags.end()) {
      throw UsageError(field.flag() + " needs a value (" + field.value_name() + "), but the flag " +
                       text + " follows it");
    }
  }
}

std::string examples(const std::string& text) {
  std::string indented = "Example:\n  ";
  for (const char letter : text) {
    indented += letter == '\n' ? std::string("\n  ") : std::string(1, letter);
  }
  return indented;
}

// CLI11's pages with our usage line and without its own guess of the arguments.
class HelpPage : public CLI::Formatter {
 public:
  explicit HelpPage(std::string usage) : usage_(std::move(usage)) { column_width(kHelpColumn); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + usage_ + "\n";
  }
  // CLI11 marks the negative form of a flag with its value, "--no-gate{false}".
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, positional);
    const std::size_t mark = name.find("{false}");
    return mark == std::string::npos ? name : name.erase(mark, 7);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string& name = option->get_type_name();
    return name.empty() ? "" : " " + name;
  }

 private:
  std::string usage_;
};

// CLI11 leaves two empty lines between groups.
std::string tidy(std::string text) {
  for (std::size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n")) {
    text.erase(at, 1);
  }
  return text;
}

void describe(CLI::App& app, const std::string& usage, const std::string& footer) {
  app.set_help_flag("-h,--help", "print this help");
  app.formatter(std::make_shared<HelpPage>(usage));
  app.footer(footer);
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.text.hidden) {
      names.push_back(command.text.name);
    }
  }
  return names;
}

std::string program_help(const std::vector<Command>& commands) {
  CLI::App app("Linear-time attention for pretrained language models.", "darkformer");
  describe(app, "darkformer COMMAND [options]",
           "darkformer COMMAND --help tells more of one command.");
  app.add_flag_callback(
      "--version", [] {}, "print version, libraries and machine");
  for (const Command& command : commands) {
    app.add_subcommand(command.text.name, command.text.summary)
        ->group(command.text.hidden ? "" : "Commands");
  }
  return tidy(app.help());
}

// Everything that must be right before CLI11 sees the rest: the command's name.
Command& find_command(const std::string& name, std::vector<Command>& commands) {
  for (Command& command : commands) {
    if (command.text.name == name) {
      return command;
    }
  }
  if (name.rfind('-', 0) == 0) {
    const std::vector<std::string> known = {"--help", "--version"};
    throw UsageError("unknown option '" + name + "' before the command" + advice(name, known, ""));
  }
  throw UsageError("unknown command '" + name + "'" + advice(name, names_of(commands), ""));
}

class CommandParser {
 public:
  CommandParser(Command& command, std::vector<Field>& common)
      : command_(command),
        common_(common),
        app_(command.text.summary + ".", "darkformer " + command.text.name) {
    describe(app_, usage_line(command), details() + examples(command.text.example));
    flags_ = flag_names(command.fields);
    const auto common_flags = flag_names(common);
    flags_.insert(flags_.end(), common_flags.begin(), common_flags.end());
    bind_all();
  }

  // The help text when it was asked for, otherwise "".
  std::string parse(std::vector<std::string> arguments) {
    refuse_empty_values(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return tidy(app_.help());
    } catch (const CLI::ExtrasError&) {
      fail_extras();
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string text = error.what();  // "--threads: 1 required N missing"
      throw UsageError(text.substr(0, text.find(':')) + " needs a value");
    } catch (const CLI::ParseError& error) {
      throw UsageError(error.what() + help_hint(command_.text.name));
    }
    set_switches();
    if (command_.text.config) {
      read_files();
    }
    check_required(command_.fields);
    return "";
  }

 private:
  void bind(Field& field, const std::string& group) {
    CLI::Option* option = field.is_flag() ? bind_flag(field) : bind_value(field);
    option->group(field.traits.positional ? "Arguments" : group);
  }

  CLI::Option* bind_flag(Field& field) {
    const std::string help = full_help(field);
    CLI::Option* option = app_.add_flag(cli_name(field), help);
    switches_.emplace_back(&field, option);
    return option;
  }

  // Flags are read after the parse: CLI11's own callbacks fail badly on --flag=nonsense.
  void set_switches() {
    for (const auto& [field, option] : switches_) {
      if (option->count() > 0) {
        set_from_text(*field, {option->results().back()});
      }
    }
  }

  CLI::Option* bind_value(Field& field) {
    const auto set = [&field, this](const CLI::results_t& texts) {
      refuse_flag_as_value(field, texts, flags_);
      if (texts.size() > 1 && !field.is_list()) {
        throw UsageError(field.flag() + " was given more than once");
      }
      set_from_text(field, texts);
      return true;
    };
    CLI::Option* option = app_.add_option(cli_name(field), set, full_help(field));
    option->type_name(field.traits.positional ? "" : field.value_name());
    option->expected(1, field.is_list() ? CLI::detail::expected_max_vector_size : 1);
    option->allow_extra_args(field.is_list());
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return option;
  }

  std::string details() const {
    return command_.text.details.empty() ? "" : command_.text.details + "\n\n";
  }

  void bind_all() {
    for (Field& field : command_.fields) {
      bind(field, "Options");
    }
    if (command_.text.config) {
      app_.add_option("--config", config_, "a TOML file with any of these options")
          ->type_name("FILE")
          ->group("Options");
      flags_.emplace_back("--config");
    }
    for (Field& field : common_) {
      bind(field, "Options of every command");
    }
  }

  // CLI11 would take the next argument for the value of "--text=".
  void refuse_empty_values(const std::vector<std::string>& arguments) const {
    for (const std::string& argument : arguments) {
      if (argument.rfind("--", 0) == 0 && argument.back() == '=') {
        throw UsageError(argument + " has no value; for an empty text write " +
                         argument.substr(0, argument.size() - 1) + " ''");
      }
    }
  }

  [[noreturn]] void fail_extras() {
    const std::vector<std::string> extras = app_.remaining();
    const auto flag = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& text) { return text.rfind('-', 0) == 0; });
    if (flag == extras.end()) {
      throw UsageError("unexpected argument '" + extras.front() + "'" +
                       help_hint(command_.text.name));
    }
    throw UsageError("unknown option '" + *flag + "'" + advice(*flag, flags_, command_.text.name));
  }

  // What --config says, and the run.toml of a run that goes on.
  void read_files() {
    std::vector<Field> all = command_.fields;
    all.insert(all.end(), common_.begin(), common_.end());
    const bool out_typed = std::any_of(all.begin(), all.end(),
                                       [](const Field& f) { return f.name == "out" && f.given; });
    if (!config_.empty()) {
      read_run_toml(config_, command_.text.name, all);
    }
    follow_run(config_, out_typed, command_.text.name, all);
    std::copy_n(all.begin(), command_.fields.size(), command_.fields.begin());
    std::copy(all.begin() + static_cast<std::ptrdiff_t>(command_.fields.size()), all.end(),
              common_.begin());
  }

  Command& command_;
  std::vector<Field>& common_;
  CLI::App app_;
  std::vector<std::string> flags_;
  std::vector<std::pair<Field*, CLI::Option*>> switches_;
  std::string config_;
};

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& arguments,
                              std::vector<Command>& commands,
                              std::vector<Field>& common) {
  if (arguments.empty()) {
    throw UsageError("a command is missing" + help_hint(""));
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h") {
    return {program_help(commands), nullptr};
  }
  if (first == "--version") {
    return {version_text(), nullptr};
  }
  if (first == "help") {
    if (arguments.size() > 2) {
      throw UsageError("unexpected argument '" + arguments[2] + "'; help takes one command");
    }
    std::vector<std::string> asked(arguments.begin() + 1, arguments.end());
    asked.emplace_back("--help");
    return parse_command_line(asked, commands, common);
  }
  Command& command = find_command(first, commands);
  CommandParser parser(command, common);
  return {parser.parse({arguments.begin() + 1, arguments.end()}), &command};
}

}  // namespace darkformer
