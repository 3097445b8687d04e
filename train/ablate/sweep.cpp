#include "train/ablate/sweep.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>

#include "autograd/core/check.hpp"
#include "train/ablate/sweep_file.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"
#include "train/run/run_folder.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

// "num_heads=4, norm_position=pre"; keys by their names alone where one table has them.
std::string name_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string name;
  for (const auto& [path, value] : settings) {
    const std::string key = path.substr(path.rfind('.') + 1);
    const bool is_text = value.size() > 1 && value.front() == '"';
    name += fmt::format("{}{}={}", name.empty() ? "" : ", ",
                        find_keys(key).front()->path() == path && find_keys(key).size() == 1 ? key : path,
                        is_text ? value.substr(1, value.size() - 2) : value);
  }
  return name;
}

std::string folder_name(size_t index, const std::string& name) {
  constexpr size_t kLongest = 80;
  std::string text = fmt::format("{}-", index + 1);
  for (const char c : name) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(c)) || (c != '\0' && std::strchr("=.-+_", c));
    if (is_kept)
      text += c;
    else if (text.back() != '_')
      text += '_';
  }
  return text.substr(0, kLongest);
}

// All combinations of the grid; the last key changes fastest.
std::vector<NamedArm> expand(const SweepFile& file) {
  std::vector<NamedArm> arms{NamedArm{}};
  for (const Setting& setting : file.grid) {
    std::vector<NamedArm> next;
    for (const NamedArm& arm : arms) {
      for (const std::string& value : setting.values) {
        next.push_back(arm);
        next.back().settings.push_back({setting.key, {value}, setting.place});
      }
    }
    require<ConfigError>(static_cast<int64_t>(next.size()) <= kMostRuns, "{}: the grid has more than {} arms",
                         setting.place, kMostRuns);
    arms = std::move(next);
  }
  return arms;
}

// The arguments of the command line, sorted by what they set.
struct Overrides {
  std::string run_dir;
  std::string seeds;
  std::vector<std::string> keys;                 // key=value of the config
  std::map<std::string, std::string> by_path{};  // argument by KeySpec::path()
};

Overrides sort_overrides(const std::vector<std::string>& arguments) {
  Overrides sorted;
  for (const std::string& argument : arguments) {
    const size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    const std::string value = argument.substr(std::min(equals + 1, argument.size()));
    const std::string place = "argument " + shorten(quote(argument));
    require<ConfigError>(name != "seed", "{}: every arm has the same seeds: set seeds=NUMBER", place);
    if (name == "run_dir" || name == "train.run_dir" || name == "seeds") {
      std::string& target = name == "seeds" ? sorted.seeds : sorted.run_dir;
      require<ConfigError>(!value.empty() && target.empty(), "{}: give {} one value", place, name);
      target = value;
      continue;
    }
    sorted.keys.push_back(argument);
    const size_t dot = name.find('.');
    if (dot != std::string::npos)
      sorted.by_path[name] = argument;
    else if (const auto keys = find_keys(name); keys.size() == 1)
      sorted.by_path[keys.front()->path()] = argument;
  }
  return sorted;
}

// Without run_dir, which differs between any two.
std::string identity(Config config) {
  config.train.run_dir = "-";
  return config_to_toml(config);
}

class Builder {
 public:
  Builder(SweepFile file, Overrides overrides) : file_(std::move(file)), overrides_(std::move(overrides)) {
    sweep_.file_name = file_.name;
    sweep_.seeds = file_.seeds;
    sweep_.significance = file_.significance;
    sweep_.noise_sd = file_.noise_sd;
    if (!overrides_.seeds.empty()) read_seeds();
    find_folder();
    const fs::path config = expand_home(file_.config);
    config_path_ = config.is_absolute() ? config.string() : (fs::path(file_.name).parent_path() / config).string();
  }

  Sweep build() {
    for (NamedArm& arm : file_.grid.empty() ? file_.arms : grid_arms_ = expand(file_)) add(arm);
    require<ConfigError>(sweep_.num_runs() <= kMostRuns, "{}: {} arms with {} seeds are more than {} runs", file_.name,
                         sweep_.arms.size(), sweep_.seeds, kMostRuns);
    find_baseline();
    note_fixed_seeds();
    return std::move(sweep_);
  }

 private:
  void read_seeds() {
    const ValueFormat<int64_t> format = integer(1, kMostSeeds);
    const auto value = read_toml_value(overrides_.seeds);
    const auto seeds = value ? format.read(*value) : std::nullopt;
    require<ConfigError>(seeds.has_value(), "argument \"seeds={}\": seeds must be {}", overrides_.seeds,
                         format.allowed);
    sweep_.seeds = *seeds;
  }

  void find_folder() {
    const std::string given =
        overrides_.run_dir.empty() ? "runs/" + fs::path(file_.name).stem().string() : expand_home(overrides_.run_dir);
    std::error_code error;
    fs::path folder = fs::absolute(given, error);
    if (!error) folder = fs::weakly_canonical(folder, error);
    require<ConfigError>(!error, "run_dir: {} cannot be resolved: {}; give an absolute path with run_dir=…", given,
                         error.message());
    sweep_.folder = (folder.has_filename() ? folder : folder.parent_path()).string();
  }

  void add(const NamedArm& named) {
    Arm arm;
    for (const Setting& one : named.settings) {
      const auto given = overrides_.by_path.find(one.key);
      require<ConfigError>(given == overrides_.by_path.end(),
                           "argument {}: the sweep itself varies {} ({}): leave one of them out",
                           given == overrides_.by_path.end() ? "" : quote(given->second), one.key, one.place);
      arm.settings.emplace_back(one.key, one.values.front());
    }
    require<ConfigError>(!file_.grid.empty() || !named.name.empty(), "{}: the arm has no name: give it name = \"…\"",
                         named.place);
    arm.name = file_.grid.empty() ? named.name : name_of(arm.settings);
    arm.folder = folder_name(sweep_.arms.size(), arm.name);
    arm.config = resolve(arm, named);
    require_other(arm);
    sweep_.arms.push_back(std::move(arm));
  }

  Config resolve(const Arm& arm, const NamedArm& named) const {
    std::vector<std::string> arguments = overrides_.keys;
    const auto is_set = [&](const std::string& key) {
      const auto is_it = [&](const auto& setting) { return setting.first == key; };
      return overrides_.by_path.contains(key) || std::any_of(arm.settings.begin(), arm.settings.end(), is_it);
    };
    for (const Setting& one : file_.base) {
      if (!is_set(one.key)) arguments.push_back(one.key + "=" + one.values.front());
    }
    for (const auto& [key, value] : arm.settings) arguments.push_back(fmt::format("{}={}", key, value));
    arguments.push_back("train.run_dir=" + quote((fs::path(sweep_.folder) / "runs" / arm.folder).string()));
    try {
      Config config = load_config(config_path_, arguments);
      fix_paths(config);
      return config;
    } catch (const ConfigError& error) {
      throw ConfigError(with_place(error.what(), arm, named));
    }
  }

  // An error of the config, with the line of the sweep file instead of the argument that was made from it.
  std::string with_place(std::string error, const Arm& arm, const NamedArm& named) const {
    std::string place = file_.name;
    for (const auto* const settings : {&file_.base, &named.settings}) {
      for (const Setting& one : *settings) {
        const std::string argument = fmt::format("argument {}: ", quote(one.key + "=" + one.values.front()));
        if (!error.starts_with(argument)) continue;
        place = one.place;
        error.erase(0, argument.size());
      }
    }
    return fmt::format("{}: arm \"{}\": {}", place, arm.name, error);
  }

  void require_other(const Arm& arm) {
    for (const Arm& other : sweep_.arms) {
      require<ConfigError>(other.name != arm.name, "{}: two arms have the name \"{}\"", file_.name, arm.name);
    }
    const auto [same, is_new] = names_.emplace(identity(arm.config), arm.name);
    require<ConfigError>(is_new, "{}: the arms \"{}\" and \"{}\" are the same config: leave one out", file_.name,
                         same->second, arm.name);
  }

  void find_baseline() {
    if (file_.baseline.empty()) return;
    const auto is_it = [&](const Arm& arm) { return arm.name == file_.baseline; };
    const auto found = std::find_if(sweep_.arms.begin(), sweep_.arms.end(), is_it);
    std::vector<std::string> names;
    for (const Arm& arm : sweep_.arms) names.push_back(quote(arm.name));
    require<ConfigError>(found != sweep_.arms.end(), "{}: baseline \"{}\" is not an arm, it must be {}",
                         file_.baseline_place, file_.baseline, join_alternatives(names));
    sweep_.baseline = static_cast<size_t>(found - sweep_.arms.begin());
  }

  void add_notice(const std::string& text) {
    std::vector<std::string>& all = sweep_.notices;
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  }

  // A seed that the config sets is the same in all runs.
  void note_fixed_seeds() {
    for (const Arm& arm : sweep_.arms) {
      const auto is_given = [&](const char* key) { return arm.config.given.contains(key); };
      const bool varies =
          !is_given("model.seed") || !is_given("data.seed") || (uses_train_seed(arm.config) && !is_given("train.seed"));
      require<ConfigError>(varies || sweep_.seeds == 1,
                           "{}: arm \"{}\" sets model.seed and data.seed, so that all its runs would be the same: "
                           "remove one of them, or set seeds = 1",
                           file_.name, arm.name);
    }
    const Config& first = sweep_.arms.front().config;
    for (const char* key : {"model.seed", "data.seed", "train.seed"}) {
      if (first.given.contains(key))
        add_notice(fmt::format("{} is set by the config: it is the same in all runs", key));
    }
    for (const Arm& arm : sweep_.arms) {
      if (arm.config.data.seed != first.data.seed || arm.config.data.source_seed != first.data.source_seed) {
        add_notice(fmt::format("arm \"{}\" has another data seed: its runs are not paired with the others", arm.name));
      }
      for (const std::string& notice : arm.config.notices) add_notice(notice);
    }
  }

  SweepFile file_;
  Overrides overrides_;
  std::vector<NamedArm> grid_arms_;
  std::string config_path_;
  std::map<std::string, std::string> names_;  // of the arms, by identity()
  Sweep sweep_;
};

}  // namespace

Sweep load_sweep(const std::string& path, const std::vector<std::string>& overrides) {
  return Builder(read_sweep_file(path), sort_overrides(overrides)).build();
}

}  // namespace heed::train
