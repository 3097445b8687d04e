#include "train/commands/command_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <sstream>
#include <system_error>

#include "autograd/core/check.hpp"
#include "train/config/config_hints.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {
namespace {

// Error messages show a number as it is; anything else is quoted, since it may contain blanks and control characters.
std::string shown_value(const std::string& text) {
  const bool is_plain = !text.empty() && text.find_first_not_of("0123456789.-") == std::string::npos;
  return shorten(is_plain ? text : quote(text));
}

// Parses all of text as a T; returns false if that fails or the value is out of range.
template <class T>
bool read_whole(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end;
}

constexpr size_t kColumns = 80, kHelpColumn = 28;

// Counts UTF-8 characters, not bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// A name and its description in two columns; a long name has a separate line.
std::string two_columns(const std::string& name, const std::string& meaning) {
  std::string text = "  " + name, line = text;
  const std::string indent(kHelpColumn, ' ');
  const auto break_line = [&] {
    text += "\n" + indent;
    line = indent;
  };
  if (width_of(line) + 2 > kHelpColumn) {
    break_line();
  } else {
    const std::string gap(kHelpColumn - width_of(line), ' ');
    text += gap;
    line += gap;
  }
  std::istringstream words(meaning);
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && width_of(line) + 1 + width_of(word) > kColumns) {
      break_line();
      is_first = true;
    }
    text += (is_first ? "" : " ") + word;
    line += (is_first ? "" : " ") + word;
  }
  return text + "\n";
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return two_columns(make_option_name(option, is_positional) + make_option_opts(option), option->get_description());
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    // Further long names are former ones.
    return is_positional || option->get_lnames().size() < 2 ? CLI::Formatter::make_option_name(option, is_positional)
                                                            : "--" + option->get_lnames().front();
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return two_columns(command->get_name(), command->get_description());
  }
};

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// The nearest of the names; empty if none is near.
std::string nearest_of(const std::vector<std::string>& names, const std::string& written) {
  std::pair<size_t, std::string> nearest{std::string::npos, ""};
  for (const std::string& name : names) nearest = std::min(nearest, {edit_distance(written, name), name});
  return is_near(nearest.first, written) ? nearest.second : std::string();
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

std::string full_name(const CLI::App& app) {
  return (app.get_parent() == nullptr ? "" : full_name(*app.get_parent()) + " ") + app.get_name();
}

std::string describe_unknown_option(const CLI::App& command, const std::string& argument) {
  const std::string written = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  bool takes_keys = false;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_lnames().empty()) known.push_back("--" + option->get_lnames().front());
    takes_keys = takes_keys || (option->get_positional() && option->get_expected_max() > 1);
  }
  const std::string nearest = nearest_of(known, written);
  if (!nearest.empty()) return fmt::format("unknown option {}; did you mean {}?", written, nearest);
  std::string key = written.substr(std::min(written.find_first_not_of('-'), written.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  const size_t dot = key.find('.');
  const bool is_key =
      dot == std::string::npos ? !find_keys(key).empty() : find_key(key.substr(0, dot), key.substr(dot + 1)) != nullptr;
  if (takes_keys || is_key) {
    return fmt::format("unknown option {}; keys of the config are set without dashes, such as {}=VALUE", written,
                       is_key ? key : "optim.learning_rate");
  }
  return fmt::format("unknown option {}; {} takes {}", written, full_name(command), fmt::join(known, ", "));
}

// Replaces messages of CLI11 that use its own terms.
std::string describe_mismatch(const std::string& text) {
  const std::string option = text.substr(0, text.find(':'));
  if (text.ends_with("missing")) return option + " needs a value";
  if (const size_t count = text.find("but received "); count != std::string::npos) {
    return fmt::format("{} is given {} times, it takes one value", option, text.substr(count + 13));
  }
  return text;
}

}  // namespace

int64_t integer_option(const std::string& option, const std::string& text, const IntegerRange& range) {
  int64_t value = 0;
  const bool fits = read_whole(text, value) && range.low <= value && value <= range.high;
  require<ConfigError>(fits, "{} is {}, it must be an integer from {} to {}", option, shown_value(text), range.low,
                       range.high);
  return value;
}

double number_option(const std::string& option, const std::string& text, const NumberRange& range) {
  double value = 0;
  // from_chars also accepts the names of NaN and infinity.
  const bool fits = text.find_first_not_of("0123456789.-+eE") == std::string::npos && read_whole(text, value) &&
                    (range.above_low ? range.low < value : range.low <= value) && value <= range.high;
  require<ConfigError>(fits, "{} is {}, it must be a number {} {} {} {}", option, shown_value(text),
                       range.above_low ? "above" : "from", range.low, range.above_low ? "and at most" : "to",
                       range.high);
  return value;
}

size_t choice_option(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  require<ConfigError>(found != names.end(), "{} is {}, it must be {}", option, shorten(quote(text)),
                       join_alternatives(names));
  return static_cast<size_t>(found - names.begin());
}

void set_help_format(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

CLI::Option* add_value(CLI::App* command, const std::string& name, const ReadOption& read, const std::string& shown,
                       const std::string& help) {
  return command->add_option_function<std::string>(name, read, help)->option_text(shown);
}

CLI::Option* add_values(CLI::App* command, const std::string& name, const ReadOption& read, const std::string& shown,
                        const std::string& help) {
  const auto read_all = [read](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) read(text);
  };
  return command->add_option_function<std::vector<std::string>>(name, read_all, help)
      ->allow_extra_args(false)
      ->option_text(shown);
}

CLI::Option* add_path(CLI::App* command, const std::string& name, std::string& value, const std::string& help) {
  const auto read = [name, &value](const std::string& text) {
    require<ConfigError>(!text.empty(), "{} is \"\", it must be the path of a file", name);
    value = expand_home(text);
  };
  return add_value(command, name, read, "PATH", help);
}

CLI::Option* add_number(CLI::App* command, const std::string& name, double& value, const NumberRange& range,
                        const std::string& help) {
  const auto read = [name, &value, range](const std::string& text) { value = number_option(name, text, range); };
  return add_value(command, name, read, fmt::format("X={}", value), help);
}

void require_known_command(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> names = names_of_commands(*at);
    const std::string word = argv[i];
    if (names.empty() || word.starts_with("-")) return;
    const auto found = std::find(names.begin(), names.end(), word);
    if (found != names.end()) {
      at = at->get_subcommands({})[static_cast<size_t>(found - names.begin())];
      continue;
    }
    if (word.ends_with(".toml")) {
      throw ConfigError(fmt::format("{} is a config file, not a command; to train it: heed train {}", word, word));
    }
    const std::string nearest = nearest_of(names, word);
    throw ConfigError(nearest.empty()
                          ? fmt::format("unknown command '{}', {} has {}", word, full_name(*at), fmt::join(names, ", "))
                          : fmt::format("unknown command '{}'; did you mean '{}'?", word, nearest));
  }
}

std::string describe_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> extras = app.remaining(true);
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& text) { return text.starts_with("-"); });
  const std::vector<std::string> commands = names_of_commands(command);
  std::string text = error.what();
  if (option != extras.end()) {
    text = describe_unknown_option(command, *option);
  } else if (!commands.empty()) {
    text = fmt::format("a command is missing, {} has {}", full_name(command), fmt::join(commands, ", "));
  } else if (!extras.empty()) {
    text = fmt::format("unexpected argument '{}'", extras.front());
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    text = describe_mismatch(text);
  }
  return fmt::format("{} ({} --help)", text, full_name(command));
}

}  // namespace heed::train
