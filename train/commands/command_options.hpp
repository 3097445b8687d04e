// The options of the command line: their values, how they are declared and shown by --help, and messages about invalid
// command lines. Every option of every command is read here, so that 010 is ten everywhere and an empty text (an unset
// variable of a shell) is an error everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace heed::train {

// The values that an option may have. The three functions below throw ConfigError:
// `--seed is "4x", it must be an integer from 0 to 4294967295`.
struct IntegerRange {
  int64_t low = 0, high = 0;  // inclusive
};

struct NumberRange {
  double low = 0, high = 0;
  bool above_low = false;  // low itself is excluded
};

// Decimal digits with an optional minus sign; leading zeros are ignored.
int64_t integer_option(const std::string& option, const std::string& text, const IntegerRange& range);

// Decimal digits with an optional fraction, exponent and minus sign; hexadecimal numbers, NaN and infinity are errors.
double number_option(const std::string& option, const std::string& text, const NumberRange& range);

// The index of text among the names; it must be equal to one of them.
size_t choice_option(const std::string& option, const std::string& text, const std::vector<std::string>& names);

// Sets the help format of the app and of all commands that are added later: lines of at most 80 columns, without
// control characters.
void set_help_format(CLI::App& app);

// The value of an option is read while the command line is parsed, so CLI::App::parse() throws the ConfigErrors of
// the functions above. shown: the text that help prints after the name.
using ReadOption = std::function<void(const std::string& text)>;
CLI::Option* add_value(CLI::App* command, const std::string& name, const ReadOption& read, const std::string& shown,
                       const std::string& help);

// The same for an option that may be given several times: `read` is called for each value, in their order.
CLI::Option* add_values(CLI::App* command, const std::string& name, const ReadOption& read, const std::string& shown,
                        const std::string& help);

// In add_integer(), add_number() and add_choice(), the initial value is the default that help shows.
//
// names: the name of the option; after commas its former names, which are still read but not shown.
template <class T>
CLI::Option* add_integer(CLI::App* command, const std::string& names, T& value, const IntegerRange& range,
                         const std::string& help) {
  const auto read = [name = names.substr(0, names.find(',')), &value, range](const std::string& text) {
    value = static_cast<T>(integer_option(name, text, range));
  };
  return add_value(command, names, read, "N=" + std::to_string(value), help);
}

CLI::Option* add_number(CLI::App* command, const std::string& name, double& value, const NumberRange& range,
                        const std::string& help);

// A file or folder. Reading throws ConfigError for an empty text, such as an unset variable of a shell.
CLI::Option* add_path(CLI::App* command, const std::string& name, std::string& value, const std::string& help);

template <class T>
CLI::Option* add_choice(CLI::App* command, const std::string& name, T& value,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& help) {
  std::vector<std::string> names;
  std::string text, default_name;
  for (const auto& [choice, meaning] : choices) {
    names.push_back(choice);
    text += (text.empty() ? "" : "|") + choice;
    if (meaning == value) default_name = choice;
  }
  const auto read = [name, &value, names, choices](const std::string& given) {
    value = choices[choice_option(name, given, names)].second;
  };
  return add_value(command, name, read, text + "=" + default_name, help);
}

// Throws ConfigError if an argument in the place of a command is none. The message suggests the nearest command,
// or, for a config file, `heed train FILE`.
void require_known_command(const CLI::App& app, int argc, const char* const* argv);

// The one-line message for a command line that CLI11 rejects: what is wrong, and the --help that explains more.
std::string describe_usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace heed::train
