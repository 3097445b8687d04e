#include <algorithm>
#include <map>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/io/posix_file.hpp"
#include "data/io/utf8.hpp"
#include "train/output/number_text.hpp"
#include "train/plot/arm_list.hpp"
#include "train/plot/run_text.hpp"
#include "train/report/csv_table.hpp"
#include "train/report/html.hpp"
#include "train/report/report_page.hpp"
#include "train/run/summary_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

using Keys = std::map<std::string, std::string>;  // "table.key" to its value as TOML

// The keys of a config that config_to_toml() wrote, without those in comments, which follow from the others, and
// without run_dir, which every arm has for itself.
Keys keys_of(const std::string& toml) {
  Keys keys;
  std::string table;
  for (size_t begin = 0, end; begin < toml.size(); begin = end + 1) {
    end = std::min(toml.find('\n', begin), toml.size());
    const std::string line = toml.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (line.starts_with('[')) {
      table = line.substr(1, line.find(']') - 1) + ".";
    } else if (!line.starts_with('#') && equals != line.npos) {
      keys[table + line.substr(0, equals)] = line.substr(equals + 3);
    }
  }
  keys.erase("train.run_dir");
  return keys;
}

std::string value_of(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "–" : found->second;
}

std::string loss_or_empty(std::optional<double> loss) { return loss ? loss_text(*loss) : ""; }
std::string count_or_empty(std::optional<double> count) { return count ? count_text(*count) : ""; }
std::string bytes_or_empty(std::optional<double> bytes) {
  return bytes ? human_bytes(static_cast<int64_t>(*bytes)) : "";
}

// What heed ablate left in the folder of a sweep. The arms are the rows of ablation.csv.
class SweepFiles {
 public:
  explicit SweepFiles(const fs::path& folder)
      : folder_(folder), arms_(folder / "ablation.csv"), runs_(folder / "runs.csv"), speed_(folder / "speed.csv") {
    const std::vector<ArmEntry> entries = read_arms(folder);
    for (size_t arm = 0; arm < arms_.rows(); ++arm) {
      const std::string name = arms_.text(arm, "arm");
      const auto is_it = [&](const ArmEntry& entry) { return entry.name == data::printable(name); };
      const auto entry = std::find_if(entries.begin(), entries.end(), is_it);
      require<DataError>(entry != entries.end(), "{}: {} does not list the arm {} of ablation.csv",
                         data::quoted_path(folder.string()), kArmsFile, data::quoted_text(name));
      folders_.push_back(entry->folder);
      keys_.push_back(keys_of(read_file(config_file(arm))));
      if (arms_.text(arm, "verdict") == "baseline") baseline_ = arm;
    }
    require<DataError>(arms_.rows() > 0, "{} lists no arms", data::quoted_path((folder / "ablation.csv").string()));
  }

  const CsvTable& arms() const { return arms_; }
  const CsvTable& runs() const { return runs_; }
  const CsvTable& speed() const { return speed_; }
  size_t baseline() const { return baseline_; }
  std::string name(size_t arm) const { return arms_.text(arm, "arm"); }
  std::string id(size_t arm) const { return fmt::format("arm-{}", arm + 1); }
  const Keys& keys(size_t arm) const { return keys_[arm]; }
  fs::path config_file(size_t arm) const { return folder_ / "configs" / (folders_[arm] + ".toml"); }

  // The keys that do not have the same value in all of these arms.
  std::vector<std::string> different_keys(const std::vector<size_t>& arms) const {
    Keys all;
    for (const size_t arm : arms) all.insert(keys_[arm].begin(), keys_[arm].end());
    const auto is_common = [&](const auto& key) {
      return std::all_of(arms.begin(), arms.end(), [&](size_t arm) {
        return value_of(keys_[arm], key.first) == value_of(keys_[arms.front()], key.first);
      });
    };
    std::erase_if(all, is_common);
    std::vector<std::string> names;
    for (const auto& [key, value] : all) names.push_back(key);
    return names;
  }

  std::vector<size_t> all_arms() const {
    std::vector<size_t> arms(arms_.rows());
    for (size_t arm = 0; arm < arms.size(); ++arm) arms[arm] = arm;
    return arms;
  }

  // The rows of runs.csv or speed.csv that are of the arm.
  std::vector<size_t> rows_of(const CsvTable& table, size_t arm) const {
    std::vector<size_t> rows;
    for (size_t row = 0; row < table.rows(); ++row) {
      if (table.text(row, "arm") == name(arm)) rows.push_back(row);
    }
    return rows;
  }

  bool is_complete(size_t arm, const std::string& seed) const {
    for (const size_t row : rows_of(runs_, arm)) {
      if (runs_.text(row, "seed") == seed) return runs_.text(row, "status") == "completed";
    }
    return false;
  }

  // Of the first run of the arm that has one.
  std::optional<StoredSummary> summary(size_t arm) const {
    for (const size_t row : rows_of(runs_, arm)) {
      const fs::path file = folder_ / "runs" / folders_[arm] / ("seed-" + runs_.text(row, "seed")) / "summary.json";
      if (std::error_code ignored; fs::exists(file, ignored)) return read_summary(file);
    }
    return std::nullopt;
  }

 private:
  fs::path folder_;
  CsvTable arms_, runs_, speed_;
  std::vector<std::string> folders_;
  std::vector<Keys> keys_;
  size_t baseline_ = 0;
};

std::string question_html(const SweepFiles& sweep) {
  int64_t complete = 0;
  for (const size_t arm : sweep.all_arms())
    complete += static_cast<int64_t>(sweep.arms().number(arm, "complete").value_or(0));
  std::vector<std::pair<std::string, std::string>> facts{
      {"Arms", fmt::format("{}", sweep.arms().rows())},
      {"Runs", fmt::format("{}, of which {} complete", sweep.runs().rows(), complete)},
      {"Baseline", sweep.name(sweep.baseline())}};
  if (const auto stored = sweep.summary(sweep.baseline())) {
    facts.emplace_back("its dataset", dataset_text(stored->config));
    facts.emplace_back("its model", model_text(stored->config.model));
    facts.emplace_back("its steps", fmt::format("{}", stored->config.train.steps));
  }
  std::string text =
      html_paragraph(
          "A sweep: each arm, one setting of the config, is trained with several seeds, and the arms are compared by "
          "validation loss. Runs are paired by seed.") +
      html_facts(facts);
  const std::vector<std::string> keys = sweep.different_keys(sweep.all_arms());
  std::vector<std::vector<HtmlCell>> rows{{"arm"}};
  for (const std::string& key : keys) rows[0].emplace_back(key);
  for (const size_t arm : sweep.all_arms()) {
    std::vector<HtmlCell>& row = rows.emplace_back(std::vector<HtmlCell>{{sweep.name(arm), sweep.id(arm)}});
    for (const std::string& key : keys) row.emplace_back(value_of(sweep.keys(arm), key));
  }
  return text + html_table("The config keys in which the arms differ; –: the key has no effect in this arm.", rows);
}

std::string losses_html(const SweepFiles& sweep) {
  const CsvTable& arms = sweep.arms();
  const auto with_sd = [&](size_t arm, const std::string& column) {
    const auto mean = arms.number(arm, column), sd = arms.number(arm, column + "_sd");
    return loss_or_empty(mean) + (mean && sd ? " ± " + loss_text(*sd) : "");
  };
  const auto signed_text = [](std::optional<double> value) { return value ? fmt::format("{:+.4f}", *value) : ""; };
  std::vector<std::vector<HtmlCell>> rows{
      {"arm", "complete", "validation loss", "excess", "difference", "interval", "p", "verdict", "detectable"}};
  for (const size_t arm : sweep.all_arms()) {
    const std::string low = signed_text(arms.number(arm, "interval_low"));
    const auto p = arms.number(arm, "p"), detectable = arms.number(arm, "detectable");
    rows.push_back({{sweep.name(arm), sweep.id(arm)},
                    arms.text(arm, "complete") + " of " + arms.text(arm, "runs"),
                    with_sd(arm, "val_loss"),
                    with_sd(arm, "excess"),
                    signed_text(arms.number(arm, "difference")),
                    low.empty() ? "" : low + " to " + signed_text(arms.number(arm, "interval_high")),
                    !p           ? ""
                    : *p < 0.001 ? "< 0.001"
                                 : fmt::format("{:.3f}", *p),
                    arms.text(arm, "verdict"),
                    detectable ? number_text(*detectable, 2) : ""});
  }
  const std::vector<size_t> all = sweep.all_arms();
  const bool is_tested = std::any_of(all.begin(), all.end(), [&](size_t arm) { return arms.number(arm, "p"); });
  constexpr const char* kTest =
      "Difference: from the baseline, paired by seed, with the interval of a two-sided t-test; p and interval are "
      "corrected for the number of comparisons (Bonferroni). Detectable: the smallest true difference that "
      "the test finds with a power of 80 %, given the noise over the seeds.";
  return html_table("Losses in nats per target: mean ± standard deviation over the complete runs.", rows, {0, 7}) +
         html_paragraph(is_tested ? kTest
                                  : "No arm is tested: a test needs two seeds whose runs are complete in both arms.");
}

std::string costs_html(const SweepFiles& sweep) {
  const CsvTable &arms = sweep.arms(), &speed = sweep.speed();
  const auto mean = [&](size_t arm, const char* column) -> std::optional<double> {
    double sum = 0, count = 0;
    for (const size_t row : sweep.rows_of(speed, arm)) {
      if (!sweep.is_complete(arm, speed.text(row, "seed"))) continue;
      sum += speed.number(row, column).value_or(0);
      ++count;
    }
    return count == 0 ? std::nullopt : std::optional(sum / count);
  };
  std::vector<std::vector<HtmlCell>> rows{
      {"arm", "parameters", "head size", "KV cache", "activations", "peak memory", "tokens/s", "gradient spikes"}};
  for (const size_t arm : sweep.all_arms()) {
    const auto spikes = arms.number(arm, "grad_norm_spikes");
    rows.push_back({{sweep.name(arm), sweep.id(arm)},
                    count_or_empty(arms.number(arm, "parameters")),
                    arms.text(arm, "head_size"),
                    bytes_or_empty(arms.number(arm, "kv_cache_bytes")),
                    bytes_or_empty(arms.number(arm, "activation_bytes")),
                    bytes_or_empty(mean(arm, "peak_memory_bytes")),
                    count_or_empty(mean(arm, "tokens_per_s")),
                    spikes ? number_text(*spikes) : ""});
  }
  return html_table("Size and cost: means over the completed runs; the KV cache is that of one full sequence.", rows);
}

// When each arm began to use more context; empty for a dataset without entropies.
std::string context_html(const SweepFiles& sweep) {
  constexpr std::string_view kStart = "step_below_";
  std::vector<std::string> columns;
  for (const std::string& column : sweep.arms().columns()) {
    if (column.starts_with(kStart)) columns.push_back(column);
  }
  if (columns.empty()) return "";
  std::vector<std::vector<HtmlCell>> rows{{"arm"}};
  for (const std::string& column : columns) rows[0].emplace_back(column.substr(kStart.size()));
  for (const size_t arm : sweep.all_arms()) {
    std::vector<HtmlCell>& row = rows.emplace_back(std::vector<HtmlCell>{{sweep.name(arm), sweep.id(arm)}});
    for (const std::string& column : columns) {
      const auto step = sweep.arms().number(arm, column);
      row.emplace_back(step ? fmt::format("{:.0f}", *step) : "–");
    }
  }
  return html_table(
      "Mean step after which the validation loss was below the entropy of a shorter context, or the loss of a simpler "
      "strategy; –: not in every run.",
      rows);
}

std::string settings_html(const SweepFiles& sweep, size_t arm) {
  if (arm == sweep.baseline()) return html_paragraph("The baseline; its config is at the end of the page.");
  std::vector<std::vector<HtmlCell>> rows{{"key", "this arm", "baseline"}};
  for (const std::string& key : sweep.different_keys({sweep.baseline(), arm})) {
    rows.push_back({key, value_of(sweep.keys(arm), key), value_of(sweep.keys(sweep.baseline()), key)});
  }
  return html_table("What differs from the baseline", rows);
}

std::string runs_html(const SweepFiles& sweep, size_t arm) {
  const CsvTable &runs = sweep.runs(), &speed = sweep.speed();
  std::map<std::string, size_t> speed_rows;  // by seed
  for (const size_t row : sweep.rows_of(speed, arm)) speed_rows[speed.text(row, "seed")] = row;
  std::vector<std::vector<HtmlCell>> rows{{"seed", "status", "steps", "training loss", "validation loss", "excess",
                                           "best validation loss", "tokens/s", "time", "peak memory"}};
  for (const size_t row : sweep.rows_of(runs, arm)) {
    const auto found = speed_rows.find(runs.text(row, "seed"));
    const auto cost = [&](const char* column) {
      return found == speed_rows.end() ? std::nullopt : speed.number(found->second, column);
    };
    const auto seconds = cost("seconds");
    rows.push_back({runs.text(row, "seed"), runs.text(row, "status"), runs.text(row, "steps"),
                    loss_or_empty(runs.number(row, "train_loss")), loss_or_empty(runs.number(row, "val_loss")),
                    loss_or_empty(runs.number(row, "excess")), loss_or_empty(runs.number(row, "best_val_loss")),
                    count_or_empty(cost("tokens_per_s")), seconds ? duration_text(*seconds) : "",
                    bytes_or_empty(cost("peak_memory_bytes"))});
  }
  return html_table("Runs; losses in nats per target", rows, {0, 1});
}

}  // namespace

ReportPage sweep_page(const fs::path& folder) {
  std::error_code ignored;
  require<ConfigError>(fs::exists(folder / "ablation.csv", ignored),
                       "{} holds no results yet: heed ablate writes them at its end, or when it is stopped",
                       data::quoted_path(folder.string()));
  const SweepFiles sweep(folder);
  ReportPage page{.title = folder_name(folder), .main = question_html(sweep), .no_picture = {}};
  page.main += "<h2>Results</h2>\n" + losses_html(sweep) + costs_html(sweep) + context_html(sweep);
  page.main += html_details("table.txt, as heed ablate printed it", html_preformatted(read_file(folder / "table.txt")));
  page.main += "<h2>Curves</h2>\n";
  add_curves(page, folder, "Means over the seeds of each arm, with their standard deviations.");
  page.main += "<h2>Arms</h2>\n";
  for (const size_t arm : sweep.all_arms()) {
    page.main += fmt::format("<section id=\"{}\">\n<h3>{}</h3>\n", sweep.id(arm), html_escape(sweep.name(arm)));
    page.main += settings_html(sweep, arm) + runs_html(sweep, arm) + "</section>\n";
  }
  page.main += "<h2>Config of the baseline</h2>\n" + html_preformatted(read_file(sweep.config_file(sweep.baseline())));
  return page;
}

}  // namespace heed::train
