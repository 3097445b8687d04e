#include <fmt/format.h>

#include "train/config/config.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

constexpr const char* kHead =
    R"(<!-- Made by `./heed config --markdown > docs/config.md` from train/config/*_keys.cpp: change those files. -->

# Config keys

A config is a TOML file with the key `seed` and the tables `[model]`, `[data]`, `[optim]` and `[train]`. Any key can
also be set on the command line as `table.key=value`, which wins over the file; the table may be left out if only one
has the key. A key that is misspelt, out of range or without effect in combination with the others is an error that
names the place. `heed config FILE` shows every value of a config and where it comes from. Paths count from the current
folder.

A run that is resumed may have other values only of the keys marked *resume*.
)";

std::string code(const std::string& text) { return fmt::format("`{}`", text); }

std::string default_cell(const KeySpec& key) {
  if (key.is_required) return "required";
  return key.default_text.empty() ? code(key.default_or_text()) : key.default_text;
}

std::string meaning_cell(const KeySpec& key) {
  const std::string condition = key.condition();
  return key.meaning + (condition.empty() ? "" : ". Only for " + condition) + (key.may_change ? ". *resume*" : "");
}

// The title of the key's table and the head of its columns, if the key is the first of its table.
std::string section(const KeySpec& key, std::string_view last_table, bool is_first) {
  if (!is_first && key.table == last_table) return "";
  const std::string title = key.table.empty() ? "Before the tables" : fmt::format("[{}]", key.table);
  return fmt::format("\n## {}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title);
}

}  // namespace

std::string config_markdown() {
  std::string text = kHead, table;
  for (const KeySpec& key : schema()) {
    text += section(key, table, &key == &schema().front());
    text += fmt::format("| {} | {} | {} | {} |\n", code(key.name), key.allowed, default_cell(key), meaning_cell(key));
    table = key.table;
  }
  return text;
}

}  // namespace heed::train
