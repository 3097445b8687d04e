#include "train/run/summary.hpp"

#include "train/config/config_schema.hpp"
#include "train/output/json.hpp"
#include "train/run/run_mark.hpp"
#include "train/run/stop_signal.hpp"

namespace heed::train {
namespace {

template <class T>
std::string number_or_null(std::optional<T> value) {
  return value ? json::number(*value) : "null";
}

// {"model": {"num_layers": 2, …}, …}: numbers, booleans, lists and quoted strings of TOML are also valid JSON.
std::string config_object(const Config& config) {
  std::vector<std::pair<std::string, std::string>> tables, keys;
  for (size_t i = 0; i < schema().size(); ++i) {
    const KeySpec& key = schema()[i];
    if (key.table.empty())
      tables.emplace_back(key.name, key.get(config));
    else if (key.has_effect(config))
      keys.emplace_back(key.name, key.get(config));
    if (key.table.empty() || (i + 1 < schema().size() && schema()[i + 1].table == key.table)) continue;
    tables.emplace_back(key.table, json::object(keys));
    keys.clear();
  }
  return json::object(tables);
}

// [{"context_tokens": 0, "name": "unigram", "nats": 2.83, "standard_error": 0}, …]
std::string entropy_list(const std::vector<data::ContextEntropy>& entropies) {
  std::vector<std::string> list;
  for (const data::ContextEntropy& one : entropies) {
    list.push_back(json::object({{"context_tokens", number_or_null(one.context_tokens)},
                                 {"name", json::text(one.name)},
                                 {"nats", json::number(one.nats)},
                                 {"standard_error", json::number(one.standard_error)}}));
  }
  return json::list(list);
}

}  // namespace

const char* status_name(RunStatus status) {
  constexpr const char* kNames[] = {"running", "completed", "stopped", "diverged", "failed"};
  return kNames[static_cast<size_t>(status)];
}

void set_status(Summary& s, const Config& config, const std::string& failure) {
  s.status = RunStatus::completed;
  if (s.steps < config.train.steps) {
    s.status = RunStatus::stopped;
    s.reason = fmt::format("train.stop_after = {}", config.train.stop_after);
  }
  if (s.stop_signal != 0) {
    s.status = RunStatus::stopped;
    s.reason = stop_signal_name(s.stop_signal);
  }
  if (failure.empty()) return;
  s.status = RunStatus::failed;
  s.reason = failure;
}

bool is_complete(const Summary& summary, const Config& config) {
  // A signal in the last evaluation also stops a run at its last step, but without its losses.
  return summary.status == RunStatus::completed ||
         (summary.status == RunStatus::stopped && config.train.stop_after > 0 &&
          summary.reason == fmt::format("train.stop_after = {}", config.train.stop_after));
}

std::string summary_to_json(const Summary& s, const Config& config) {
  const std::pair<const char*, std::string> members[] = {{"status", json::text(status_name(s.status))},
                                                         {"reason", s.reason.empty() ? "null" : json::text(s.reason)},
                                                         {"steps", json::number(s.steps)},
                                                         {"parameters", json::number(s.parameters)},
                                                         {"train_loss", number_or_null(s.train_loss)},
                                                         {"val_loss", number_or_null(s.val_loss)},
                                                         {"val_targets", number_or_null(s.val_targets)},
                                                         {"bits_per_byte", number_or_null(s.bits_per_byte)},
                                                         {"best_val_loss", number_or_null(s.best_val_loss)},
                                                         {"best_val_targets", number_or_null(s.best_val_targets)},
                                                         {"test_loss", number_or_null(s.test_loss)},
                                                         {"val_loss_ema", number_or_null(s.val_loss_ema)},
                                                         {"test_loss_ema", number_or_null(s.test_loss_ema)},
                                                         {"entropy", number_or_null(s.entropy)},
                                                         {"excess", number_or_null(s.excess)},
                                                         {"entropies", entropy_list(s.entropies)},
                                                         {"waited_s_per_step", number_or_null(s.waited_s_per_step)},
                                                         {"tokens_per_s", json::number(s.tokens_per_s)},
                                                         {"seconds", json::number(s.seconds)},
                                                         {"peak_memory_bytes", json::number(s.peak_memory_bytes)},
                                                         {"config", config_object(config)}};
  std::string text = summary_start();
  for (const auto& [name, value] : members) text += fmt::format("  \"{}\": {},\n", name, value);
  return text.substr(0, text.size() - 2) + "\n}\n";
}

}  // namespace heed::train
