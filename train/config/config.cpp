#include "train/config/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "autograd/core/check.hpp"
#include "train/config/config_hints.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

// Far more than a config needs: a larger file is of another kind, named by mistake.
constexpr std::streamsize kLargestFileBytes = 1 << 20;

// The only place that sets values given in the file or on the command line.
void set_value(Config& config, const KeySpec& key, const ConfigValue& value, Origin origin) {
  bool is_allowed = false;
  try {
    is_allowed = key.set(config, value);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: key {}: {}", origin.place, key.path(), error.what()));
  }
  require<ConfigError>(is_allowed, "{}: key {} is {}, it must be {}", origin.place, key.path(), describe_value(value),
                       key.allowed);
  config.given[key.path()] = std::move(origin);
}

void require_table(const std::string& table, const std::string& place) {
  if (!is_table(table)) {
    throw ConfigError(place + ": " + unknown_table_text(table));
  }
}

const KeySpec& known_key(const std::string& table, const std::string& name, const std::string& place) {
  const KeySpec* key = find_key(table, name);
  if (key == nullptr) {
    throw ConfigError(place + ": " + unknown_key_text(table, name));
  }
  return *key;
}

void read_entry(Config& config, const TomlEntry& entry) {
  Origin origin{OriginKind::file, entry.line, fmt::format("{}:{}:{}", config.file_name, entry.line, entry.column)};
  if (entry.is_table) {
    require_table(entry.table, origin.place);
    return;
  }
  require<ConfigError>(!entry.table.empty() || !is_table(entry.key), "{}: [{}] must be a table, not {}", origin.place,
                       entry.key, describe_value(entry.value));
  const KeySpec& key = known_key(entry.table, entry.key, origin.place);
  set_value(config, key, entry.value, std::move(origin));
}

void read_text(Config& config, const std::string& text) {
  try {
    for (const TomlEntry& entry : read_toml(text)) {
      read_entry(config, entry);
    }
  } catch (const TomlSyntaxError& error) {
    const KeySpec* key = find_key(error.table, error.key);
    const std::string hint = key ? fmt::format(" (key {} must be {})", key->path(), key->allowed) : "";
    throw ConfigError(fmt::format("{}:{}:{}: {}{}", config.file_name, error.line, error.column, error.what(), hint));
  }
}

const KeySpec& find_override_key(const std::string& name, const std::string& place) {
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) {
    const std::string table = name.substr(0, dot), key_name = name.substr(dot + 1);
    require_table(table, place);
    return known_key(table, key_name, place);
  }
  const std::vector<const KeySpec*> keys = find_keys(name);
  if (keys.empty()) {
    throw ConfigError(place + ": " + unknown_key_text("", name));
  }
  std::vector<std::string> paths;
  for (const KeySpec* key : keys) {
    paths.push_back(key->path());
  }
  require<ConfigError>(keys.size() == 1, "{}: several tables have a key {}, write {}", place, name,
                       join_alternatives(paths));
  return *keys.front();
}

void apply_override(Config& config, const std::string& argument) {
  const std::string place = "argument " + shorten(quote(argument));
  const std::size_t equals = argument.find('=');
  require<ConfigError>(equals != std::string::npos && equals > 0,
                       "{} is not table.key=value; usage: CONFIG [key=value ...], such as optim.learning_rate=1e-3",
                       place);
  const std::string name = argument.substr(0, equals);
  const KeySpec& key = find_override_key(name, place);
  require<ConfigError>(config.origin(key.path()).kind != OriginKind::command_line, "{}: key {} is already set by {}",
                       place, key.path(), config.origin(key.path()).place);
  const std::string text = argument.substr(equals + 1);
  const std::size_t first = text.find_first_not_of(" \t");
  require<ConfigError>(first != std::string::npos, "{}: key {} has no value, it must be {}", place, key.path(),
                       key.allowed);
  const bool is_bare_word = key.is_text && text[first] != '"' && text[first] != '\'';
  const std::optional<ConfigValue> value = read_toml_value(is_bare_word ? quote(text) : text);
  require<ConfigError>(
      is_utf8(text),
      "{}: the value of key {} is not UTF-8, it must be {}; a file of another name can be given by a link", place,
      key.path(), key.allowed);
  require<ConfigError>(value.has_value(),
                       "{}: key {} has the value {}, which is not valid TOML (strings in quotes, true/false in lower "
                       "case), it must be {}",
                       place, key.path(), shorten(quote(text)), key.allowed);
  set_value(config, key, *value, {OriginKind::command_line, 0, place});
}

// The header of the table, if the key is its first and has a table.
std::string header(const KeySpec& key) {
  if (key.table.empty()) return "";
  const auto first =
      std::find_if(schema().begin(), schema().end(), [&](const KeySpec& other) { return other.table == key.table; });
  if (&key != &*first) {
    return "";
  }
  return fmt::format("\n[{}]\n", key.table);
}

// Why config_to_toml() writes the key as a comment; empty if it writes the key itself.
std::string comment_of(const Config& config, const KeySpec& key) {
  if (config.given.contains(key.path())) return "";
  if (key.path() == "train.seed" && !uses_train_seed(config)) return "no effect without dropout";
  return key.default_text.empty() || key.path() == "train.run_dir" ? "" : "default: " + key.default_text;
}

std::string value_text(const Config& config, const KeySpec& key) {
  return key.has_effect(config) ? key.get(config) : "-";
}

std::string origin_text(const Config& config, const KeySpec& key) {
  const Origin origin = config.origin(key.path());
  if (!key.has_effect(config)) {
    return "only for " + key.condition();
  }
  if (origin.kind == OriginKind::file) {
    return fmt::format("{}:{}", config.file_name, origin.line);
  }
  if (origin.kind == OriginKind::command_line) {
    return "command line";
  }
  return key.default_text.empty() ? "default" : fmt::format("default: {}", key.default_text);
}

template <class Text>
std::size_t longest(Text text) {
  std::size_t width = 0;
  for (const KeySpec& key : schema()) {
    width = std::max(width, text(key).size());
  }
  return width;
}

}  // namespace

Origin Config::origin(std::string_view key) const {
  const auto found = given.find(key);
  return found != given.end() ? found->second : Origin{};
}

Config parse_config(const std::string& text, const std::string& file_name, const std::vector<std::string>& overrides) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  require<ConfigError>(std::none_of(file_name.begin(), file_name.end(), is_control),
                       "the name of config file {} has a control character: rename it", shorten(quote(file_name)));
  Config config;
  config.file_name = file_name;
  read_text(config, text);
  for (const std::string& argument : overrides) {
    apply_override(config, argument);
  }
  resolve_config(config);
  return config;
}

std::string read_small_file(const std::string& path, const std::string& kind) {
  std::error_code ignored;
  const std::string absolute = quote(std::filesystem::absolute(path, ignored).string());
  require<ConfigError>(!std::filesystem::is_directory(path, ignored), "{} {} is a folder", kind, absolute);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFileBytes + 1, '\0');
  file.read(text.data(), kLargestFileBytes + 1);
  require<ConfigError>(file.eof() || file.good(), "{} {} cannot be read: {}", kind, absolute,
                       std::generic_category().message(errno));
  require<ConfigError>(file.gcount() <= kLargestFileBytes, "{} {} has more than {} bytes: is it a config?", kind,
                       absolute, kLargestFileBytes);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_config(read_small_file(path, "config file"), path, overrides);
}

std::string config_to_toml(const Config& config) {
  std::string text =
      "# Every key that has an effect. Commented lines are defaults derived from other keys, or keys without effect "
      "here.\n";
  for (const KeySpec& key : schema()) {
    text += header(key);
    if (!key.has_effect(config)) continue;
    const std::string comment = comment_of(config, key);
    text += comment.empty() ? fmt::format("{} = {}\n", key.name, key.get(config))
                            : fmt::format("# {} = {}  ({})\n", key.name, key.get(config), comment);
  }
  return text;
}

std::string describe_config(const Config& config) {
  const std::size_t name_width = longest([](const KeySpec& key) { return key.name; });
  const std::size_t value_width = longest([&](const KeySpec& key) { return value_text(config, key); });
  std::string text;
  for (const KeySpec& key : schema()) {
    text += header(key);
    text += fmt::format("  {:{}}  {:{}}  {}\n", key.name, name_width, value_text(config, key), value_width,
                        origin_text(config, key));
  }
  if (!config.notices.empty()) text += "\n";
  for (const std::string& notice : config.notices) text += "notice  " + notice + "\n";
  return text;
}

std::string config_reference() {
  const std::size_t name_width = longest([](const KeySpec& key) { return key.name; });
  std::string text;
  for (const KeySpec& key : schema()) {
    const std::string presence = key.is_required ? "required" : "default " + key.default_or_text();
    const std::string condition = key.conditions.empty() ? "" : "; only for " + key.condition();
    const std::string change = key.may_change ? "; may change on --resume" : "";
    text += header(key);
    text += fmt::format("  {:{}}  {}; {}{}\n", key.name, name_width, key.allowed, presence, condition);
    text += fmt::format("  {:{}}  {}{}\n", "", name_width, key.meaning, change);
  }
  return text;
}

}  // namespace heed::train
