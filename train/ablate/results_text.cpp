#include <algorithm>

#include "autograd/core/host_limits.hpp"
#include "train/ablate/results.hpp"
#include "train/output/number_text.hpp"
#include "train/output/progress.hpp"
#include "train/output/table.hpp"

namespace heed::train {
namespace {

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string csv_number(std::optional<double> value) { return value ? fmt::format("{:.9g}", *value) : ""; }

std::string csv_mean(const Sample& sample) { return sample.count > 0 ? csv_number(sample.mean) : ""; }

std::string csv_row(const std::vector<std::string>& cells) { return fmt::format("{}\n", fmt::join(cells, ",")); }

std::string column_of(const data::ContextEntropy& entropy) { return "step_below_" + entropy.name; }

// The reference losses of all arms, by name: arms may have different datasets.
std::vector<data::ContextEntropy> entropies_of(const SweepResults& results) {
  std::vector<data::ContextEntropy> all;
  for (const ArmResult& arm : results.arms) {
    for (const auto& [entropy, steps] : arm.passed) {
      const auto is_it = [&name = entropy.name](const data::ContextEntropy& one) { return one.name == name; };
      if (std::none_of(all.begin(), all.end(), is_it)) all.push_back(entropy);
    }
  }
  return all;
}

// The steps after which the runs of an arm were below this reference loss; nullopt if its dataset has none of that
// name.
std::optional<Sample> passed_steps(const ArmResult& arm, const std::string& name) {
  for (const auto& [entropy, steps] : arm.passed) {
    if (entropy.name == name) return steps;
  }
  return std::nullopt;
}

// With the number of runs if they are not all.
std::string with_sd(const Sample& sample, int64_t seeds) {
  if (sample.count == 0) return "-";
  return loss_text(sample.mean) + (sample.sd ? " ± " + loss_text(*sample.sd) : "") +
         (sample.count < seeds ? fmt::format(" (n={})", sample.count) : "");
}

// What the arms are called in a table: by the values of the key that they differ in, by their names, or by numbers if
// the names are too long; then with a legend.
struct ArmNames {
  std::string header = "arm";
  std::vector<std::string> names;
  std::string legend = {};
};

ArmNames short_names(const SweepResults& results, int64_t columns) {
  ArmNames arms;
  int64_t longest = 0;
  for (const ArmResult& arm : results.arms) {
    arms.names.push_back(arm.arm->name);
    longest = std::max(longest, display_columns(arm.arm->name));
  }
  const std::string key = arms.names[0].substr(0, arms.names[0].find('='));
  const auto is_value_of_key = [&](const ArmResult& arm) {
    return arm.arm->settings.size() == 1 && arm.arm->name.starts_with(key + "=");
  };
  if (std::all_of(results.arms.begin(), results.arms.end(), is_value_of_key)) {
    arms.header = key;
    for (std::string& name : arms.names) name.erase(0, key.size() + 1);
    return arms;
  }
  constexpr int64_t kOthers = 70;  // of the widest table, without the names
  if (longest + kOthers <= columns || longest <= 10) return arms;
  for (size_t i = 0; i < arms.names.size(); ++i) {
    arms.legend += fmt::format("{}: {}\n", i + 1, arms.names[i]);
    arms.names[i] = fmt::format("{}", i + 1);
  }
  return arms;
}

std::string p_text(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.3f}", p); }

std::string comparison(const SweepResults& results, const ArmResult& arm) {
  if (&arm == &results.arms[results.sweep->baseline]) return "baseline";
  if (!arm.test) return arm.verdict();
  return fmt::format("{:+.4f} ± {:.4f}, {}: {}", arm.test->difference.mean, arm.test->half_width, p_text(arm.test->p),
                     arm.verdict());
}

std::string losses(const SweepResults& results, const ArmNames& arms) {
  const bool has_excess =
      std::any_of(results.arms.begin(), results.arms.end(), [](const ArmResult& arm) { return arm.excess.count > 0; });
  std::vector<std::vector<std::string>> rows{{arms.header, "val loss"}};
  if (has_excess) rows[0].push_back("excess");
  rows[0].push_back("difference from " + arms.names[results.sweep->baseline]);
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    std::vector<std::string> row{arms.names[i], with_sd(arm.val_loss, results.sweep->seeds)};
    if (has_excess) row.push_back(arm.excess.count > 0 ? loss_text(arm.excess.mean) : "-");
    row.push_back(comparison(results, arm));
    rows.push_back(row);
  }
  return in_columns(rows, {0, rows[0].size() - 1});
}

std::string costs(const SweepResults& results, const ArmNames& arms) {
  std::vector<std::vector<std::string>> rows{
      {arms.header, "params", "head size", "KV cache", "activations", "memory", "tokens/s", "spikes"}};
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    const auto bytes = [](const Sample& sample) {
      return sample.count > 0 ? human_bytes(static_cast<int64_t>(sample.mean)) : "-";
    };
    rows.push_back({arms.names[i], arm.parameters() ? count_text(static_cast<double>(*arm.parameters())) : "-",
                    fmt::format("{}", arm.head_size()), human_bytes(arm.kv_cache_bytes()),
                    human_bytes(arm.activation_bytes()), bytes(arm.peak_memory),
                    arm.tokens_per_s.count > 0 ? count_text(arm.tokens_per_s.mean) : "-",
                    arm.grad_norm_spikes.count > 0 ? number_text(arm.grad_norm_spikes.mean) : "-"});
  }
  return in_columns(rows, {0});
}

// The mean step after which each shorter context's entropy was passed; if not all runs passed it, how many did.
std::string passed_text(const ArmResult& arm, const std::optional<Sample>& steps) {
  if (arm.complete == 0 || !steps) return "-";
  if (steps->count == 0) return "never";
  return steps->count < arm.complete ? fmt::format("{}/{}", steps->count, arm.complete)
                                     : fmt::format("{:.0f}", steps->mean);
}

std::string context_steps(const SweepResults& results, const ArmNames& arms, int64_t columns) {
  const std::vector<data::ContextEntropy> entropies = entropies_of(results);
  if (entropies.empty()) return "";
  std::vector<std::vector<std::string>> rows(2, {""});
  rows[0][0] = arms.header;
  for (const data::ContextEntropy& entropy : entropies) {
    rows[0].push_back(entropy.name);
    rows[1].push_back(loss_text(entropy.nats));
  }
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    std::vector<std::string> row{arms.names[i]};
    for (const data::ContextEntropy& entropy : entropies) {
      row.push_back(passed_text(arm, passed_steps(arm, entropy.name)));
    }
    rows.push_back(row);
  }
  return "\n" + in_columns(rows, {0}) +
         wrap_words(
             "Mean step after which the validation loss was below the entropy of a shorter context, or the loss of a "
             "simpler strategy; 3/5: only 3 of 5 runs got there. Above: memory is the measured peak, spikes the number "
             "of gradient-norm spikes per run.",
             columns);
}

std::string explanation(const SweepResults& results) {
  const Sweep& sweep = *results.sweep;
  if (sweep.seeds < 2) return "one seed: no noise is known, and no difference can be told from it; set seeds = 5";
  std::string text = fmt::format("val loss: mean ± standard deviation over {} seeds.", sweep.seeds);
  if (results.arms.size() < 2) return text;
  text += fmt::format(
      " Difference: mean over the seeds ± {:g} % interval; paired two-sided t-test, Bonferroni's correction for {}.",
      100 * (1 - sweep.significance), plural(results.comparisons(), "comparison"));
  double largest = 0;
  for (const ArmResult& arm : results.arms) largest = std::max(largest, arm.detectable);
  if (largest == 0) return text;
  return text + fmt::format(" With this noise {} detect a difference of {} with a power of {:g} %.",
                            plural(sweep.seeds, "seed"), number_text(largest, 2), 100 * kPower);
}

std::string failures(const SweepResults& results, const ArmNames& arms) {
  std::string text;
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    if (arm.diverged > 0)
      text += fmt::format("{}: {} of {} runs diverged\n", arms.names[i], arm.diverged, arm.runs.size());
    if (arm.failed > 0) text += fmt::format("{}: {} of {} runs failed\n", arms.names[i], arm.failed, arm.runs.size());
  }
  return text.empty()
             ? text
             : text + "The losses above are those of the other runs; an arm of which runs diverged is not tested.\n";
}

}  // namespace

std::string arms_csv(const SweepResults& results) {
  const std::vector<data::ContextEntropy> entropies = entropies_of(results);
  std::vector<std::string> header{"arm",       "runs",           "complete",         "diverged",
                                  "failed",    "val_loss",       "val_loss_sd",      "excess",
                                  "excess_sd", "difference",     "interval_low",     "interval_high",
                                  "p",         "verdict",        "detectable",       "parameters",
                                  "head_size", "kv_cache_bytes", "activation_bytes", "grad_norm_spikes"};
  for (const data::ContextEntropy& entropy : entropies) header.push_back(column_of(entropy));
  std::string text = csv_row(header);
  for (const ArmResult& arm : results.arms) {
    const bool is_baseline = &arm == &results.arms[results.sweep->baseline];
    std::vector<std::string> row{csv_text(arm.arm->name),         fmt::format("{}", arm.runs.size()),
                                 fmt::format("{}", arm.complete), fmt::format("{}", arm.diverged),
                                 fmt::format("{}", arm.failed),   csv_mean(arm.val_loss),
                                 csv_number(arm.val_loss.sd),     csv_mean(arm.excess),
                                 csv_number(arm.excess.sd)};
    const std::optional<PairedTest>& t = arm.test;
    const double mean = t ? t->difference.mean : 0;
    for (const double value : {mean, mean - (t ? t->half_width : 0), mean + (t ? t->half_width : 0), t ? t->p : 0}) {
      row.push_back(t ? csv_number(value) : "");
    }
    row.push_back(is_baseline ? "baseline" : arm.verdict());
    row.push_back(t ? csv_number(arm.detectable) : "");
    row.push_back(arm.parameters() ? fmt::format("{}", *arm.parameters()) : "");
    for (const int64_t value : {arm.head_size(), arm.kv_cache_bytes(), arm.activation_bytes()}) {
      row.push_back(fmt::format("{}", value));
    }
    row.push_back(csv_mean(arm.grad_norm_spikes));
    for (const data::ContextEntropy& entropy : entropies) {
      const std::optional<Sample> steps = passed_steps(arm, entropy.name);
      row.push_back(steps && steps->count == arm.complete ? csv_mean(*steps) : "");
    }
    text += csv_row(row);
  }
  return text;
}

namespace {

std::string passed_step(const RunResult& run, const std::string& name) {
  for (const PassedEntropy& one : run.passed) {
    if (one.entropy.name == name && one.step) return fmt::format("{}", *one.step);
  }
  return "";
}

}  // namespace

std::string runs_csv(const SweepResults& results) {
  const std::vector<data::ContextEntropy> entropies = entropies_of(results);
  std::vector<std::string> header{"arm",      "seed",   "status",        "steps",           "train_loss",
                                  "val_loss", "excess", "best_val_loss", "grad_norm_spikes"};
  for (const data::ContextEntropy& entropy : entropies) header.push_back(column_of(entropy));
  std::string text = csv_row(header);
  for (const ArmResult& arm : results.arms) {
    for (size_t k = 0; k < arm.runs.size(); ++k) {
      const std::string seed = fmt::format("{}", results.sweep->seed(*arm.arm, static_cast<int64_t>(k)));
      std::vector<std::string> row{csv_text(arm.arm->name), seed};
      if (const auto& run = arm.runs[k]) {
        const Summary& s = run->summary;
        row.insert(row.end(),
                   {status_name(s.status), fmt::format("{}", s.steps), csv_number(s.train_loss), csv_number(s.val_loss),
                    csv_number(s.excess), csv_number(s.best_val_loss), fmt::format("{}", run->grad_norm_spikes)});
        for (const data::ContextEntropy& entropy : entropies) row.push_back(passed_step(*run, entropy.name));
      } else {
        row.emplace_back("not started");
      }
      row.resize(header.size());
      text += csv_row(row);
    }
  }
  return text;
}

std::string speed_csv(const SweepResults& results) {
  std::string text = csv_row({"arm", "seed", "tokens_per_s", "seconds", "peak_memory_bytes"});
  for (const ArmResult& arm : results.arms) {
    for (size_t k = 0; k < arm.runs.size(); ++k) {
      if (!arm.runs[k]) continue;
      const Summary& s = arm.runs[k]->summary;
      text +=
          csv_row({csv_text(arm.arm->name), fmt::format("{}", results.sweep->seed(*arm.arm, static_cast<int64_t>(k))),
                   csv_number(s.tokens_per_s), csv_number(s.seconds), fmt::format("{}", s.peak_memory_bytes)});
    }
  }
  return text;
}

std::string results_table(const SweepResults& results, int64_t columns) {
  const ArmNames arms = short_names(results, columns);
  return arms.legend + losses(results, arms) + failures(results, arms) + wrap_words(explanation(results), columns) +
         "\n" + costs(results, arms) + context_steps(results, arms, columns);
}

}  // namespace heed::train
