#include <fmt/format.h>

#include <algorithm>

#include "train/config/config.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

// The header of the table, if the key is its first.
std::string header(const KeySpec& key) {
  const auto first =
      std::find_if(schema().begin(), schema().end(), [&](const KeySpec& other) { return other.table == key.table; });
  if (&key != &*first) {
    return "";
  }
  return fmt::format("{}[{}]\n", first == schema().begin() ? "" : "\n", key.table);
}

std::string default_of(const KeySpec& key) { return key.default_text.empty() ? key.get(Config{}) : key.default_text; }

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
    const std::string presence = key.is_required ? "required" : "default " + default_of(key);
    const std::string condition = key.conditions.empty() ? "" : "; only for " + key.condition();
    const std::string change = key.may_change ? "; may change on --resume" : "";
    text += header(key);
    text += fmt::format("  {:{}}  {}; {}{}\n", key.name, name_width, key.allowed, presence, condition);
    text += fmt::format("  {:{}}  {}{}\n", "", name_width, key.meaning, change);
  }
  return text;
}

}  // namespace heed::train
