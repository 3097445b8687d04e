#include "train/ablate/sweep_file.hpp"

#include <algorithm>
#include <iterator>

#include "autograd/core/check.hpp"
#include "train/config/config_hints.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

constexpr const char* kTopLevel = "config, seeds, baseline, significance, noise_sd, [base], [grid] and [[arm]]";

// The key that the names after the first `skip` ones of a path spell, found in the schema.
const KeySpec& key_at(const TomlValue& value, size_t skip, const std::string& place) {
  const auto begin = value.path.begin() + static_cast<int64_t>(skip);
  const std::string path = fmt::format("{}", fmt::join(begin, value.path.end(), "."));
  const size_t dot = path.find('.');
  const std::string table = dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  require<ConfigError>(table.empty() || is_table(table), "{}: {}", place, unknown_table_text(table));
  require<ConfigError>(!table.empty() || !is_table(name), "{}: [{}] must be a table of keys", place, name);
  const KeySpec* key = find_key(table, name);
  if (key == nullptr) throw ConfigError(fmt::format("{}: {}", place, unknown_key_text(table, name)));
  require<ConfigError>(key->path() != "seed", "{}: every arm has the same seeds: set seeds = NUMBER before the tables",
                       place);
  require<ConfigError>(key->path() != "train.run_dir",
                       "{}: heed ablate chooses the folder of each run: set run_dir=… on the command line", place);
  return *key;
}

template <class T>
T require_value(const std::optional<T>& read, const TomlValue& value, const std::string& allowed,
                const std::string& place) {
  require<ConfigError>(read.has_value(), "{}: {} is {}, it must be {}", place, value.path.back(),
                       describe_value(value.value), allowed);
  return *read;
}

template <class T>
T read_as(const ValueFormat<T>& format, const TomlValue& value, const std::string& place) {
  return require_value(format.read(value.value), value, format.allowed, place);
}

std::string text_of(const TomlValue& value, const std::string& place) {
  const auto* text = std::get_if<std::string>(&value.value.data);
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  const bool is_plain = text && !text->empty() && std::none_of(text->begin(), text->end(), is_control);
  return require_value(is_plain ? std::optional(*text) : std::nullopt, value, "text on one line", place);
}

std::string toml_of(const ConfigValue& value, const std::string& place) {
  require<ConfigError>(!std::holds_alternative<OtherValue>(value.data), "{}: no key has {} as its value", place,
                       describe_value(value));
  return to_toml(value);
}

class Reader {
 public:
  explicit Reader(const std::string& path) {
    file_.name = path;
    try {
      for (const TomlValue& value : read_nested_toml(read_small_file(path, "sweep file"))) read(value);
    } catch (const TomlSyntaxError& error) {
      throw ConfigError(fmt::format("{}:{}:{}: {}", path, error.line, error.column, error.what()));
    }
    require<ConfigError>(!file_.config.empty(), "{}: key config is missing: it names the base config", path);
    require<ConfigError>(file_.grid.empty() || file_.arms.empty(),
                         "{}: a sweep has [grid] or [[arm]], not both: write the grid as arms, or the arms as a grid",
                         path);
    require<ConfigError>(!file_.grid.empty() || !file_.arms.empty(),
                         "{}: the sweep has nothing to compare: give [grid] keys with lists of values, or [[arm]] "
                         "tables",
                         path);
  }

  SweepFile take() { return std::move(file_); }

 private:
  void read(const TomlValue& value) {
    const std::string place = fmt::format("{}:{}:{}", file_.name, value.line, value.column);
    const std::string& first = value.path.front();
    if (value.path.size() == 1 && read_own_key(value, place)) return;
    if (first == "base" || first == "grid") {
      if (value.path.size() > 1) return first == "base" ? read_base(value, place) : read_grid(value, place);
      require<ConfigError>(std::holds_alternative<OtherValue>(value.value.data), "{}: [{}] must be a table, not {}",
                           place, first, describe_value(value.value));
      require<ConfigError>(first == "base", "{}: [grid] is empty: give it keys with lists of values", place);
      return;
    }
    if (first == "arm" && value.path.size() > 1) return read_arm(value, place);
    require<ConfigError>(first != "arm", "{}: arm must be an array of tables: write [[arm]] above each arm", place);
    require<ConfigError>(!is_table(first), "{0}: [{1}] belongs into [base], as \"{1}.key = value\"", place, first);
    throw ConfigError(fmt::format("{}: unknown key {}, a sweep has {}", place, shorten(quote(first)), kTopLevel));
  }

  bool read_own_key(const TomlValue& value, const std::string& place) {
    const std::string& name = value.path.front();
    if (name == "config") {
      file_.config = text_of(value, place);
      file_.config_place = place;
    } else if (name == "baseline") {
      file_.baseline = text_of(value, place);
      file_.baseline_place = place;
    } else if (name == "seeds") {
      file_.seeds = read_as(integer(1, kMostSeeds), value, place);
    } else if (name == "significance") {
      file_.significance = read_as(number(1e-6, 0.5), value, place);
    } else if (name == "noise_sd") {
      file_.noise_sd = read_as(number(1e-12, 1e6), value, place);
    } else {
      return false;
    }
    return true;
  }

  void read_base(const TomlValue& value, const std::string& place) {
    file_.base.push_back({key_at(value, 1, place).path(), {toml_of(value.value, place)}, place});
  }

  void read_grid(const TomlValue& value, const std::string& place) {
    const KeySpec& key = key_at(value, 1, place);
    const auto* list = std::get_if<std::vector<ConfigValue>>(&value.value.data);
    require<ConfigError>(list != nullptr, "{}: {} is {}, in a grid it must be a list of the values to try", place,
                         key.path(), describe_value(value.value));
    require<ConfigError>(!list->empty(), "{}: {} has no values: list those to try", place, key.path());
    Setting& setting = file_.grid.emplace_back(Setting{key.path(), {}, place});
    std::transform(list->begin(), list->end(), std::back_inserter(setting.values),
                   [&](const ConfigValue& one) { return toml_of(one, place); });
  }

  void read_arm(const TomlValue& value, const std::string& place) {
    const std::string& number = value.path[1];
    const bool is_index = number.size() < 7 && number.find_first_not_of("0123456789") == std::string::npos;
    require<ConfigError>(is_index, "{}: arm must be an array of tables: write [[arm]] above each arm", place);
    const auto index = static_cast<size_t>(std::stoul(number));
    while (file_.arms.size() <= index) file_.arms.push_back({});
    NamedArm& arm = file_.arms[index];
    if (arm.place.empty()) arm.place = place;
    if (value.path.size() == 3 && value.path[2] == "name") {
      arm.name = text_of(value, place);
    } else if (value.path.size() > 2) {
      arm.settings.push_back({key_at(value, 2, place).path(), {toml_of(value.value, place)}, place});
    }
  }

  SweepFile file_;
};

}  // namespace

SweepFile read_sweep_file(const std::string& path) { return Reader(path).take(); }

}  // namespace heed::train
