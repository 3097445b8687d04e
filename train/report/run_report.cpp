#include <cmath>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/io/posix_file.hpp"
#include "train/output/number_text.hpp"
#include "train/plot/run_text.hpp"
#include "train/report/csv_table.hpp"
#include "train/report/html.hpp"
#include "train/report/report_page.hpp"
#include "train/run/metrics.hpp"
#include "train/run/run_mark.hpp"
#include "train/run/summary_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// "completed", "stopped: SIGINT"
std::string status_text(const Summary& summary) {
  if (summary.status == RunStatus::running) return "running, or killed";
  return status_name(summary.status) + (summary.reason.empty() ? "" : ": " + summary.reason);
}

std::string facts_html(const StoredSummary& stored, int64_t steps_done) {
  const auto& [summary, config] = stored;
  return html_facts({{"Dataset", dataset_text(config)},
                     {"Model", model_text(config.model)},
                     {"Parameters", summary.parameters > 0 ? fmt::format("{}", summary.parameters) : "not known yet"},
                     {"Steps", fmt::format("{} of {}", steps_done, config.train.steps)},
                     {"Status", status_text(summary)}});
}

std::string numbers_html(const Summary& s) {
  std::vector<std::vector<HtmlCell>> rows{{"quantity", "value", "unit"}};
  const auto add = [&](const std::string& name, const std::string& value, const char* unit) {
    rows.push_back({name, value, unit});
  };
  const auto add_loss = [&](const char* name, std::optional<double> value, const char* unit) {
    if (value) add(name, loss_text(*value), unit);
  };
  add_loss("training loss, last step", s.train_loss, "nats");
  add_loss("validation loss", s.val_loss, "nats");
  add_loss("best validation loss", s.best_val_loss, "nats");
  add_loss("validation loss, averaged weights", s.val_loss_ema, "nats");
  add_loss("test loss", s.test_loss, "nats");
  add_loss("test loss, averaged weights", s.test_loss_ema, "nats");
  add_loss("excess", s.excess, "nats");
  add_loss("bits per byte", s.bits_per_byte, "bits");
  for (const data::ContextEntropy& one : s.entropies)
    add((one.context_tokens ? "entropy, " : "reference loss, ") + one.name, loss_text(one.nats), "nats");
  if (s.tokens_per_s > 0) add("training speed", count_text(s.tokens_per_s), "tokens/s");
  if (s.seconds > 0) add("time", duration_text(s.seconds), s.seconds > 3599 ? "h:min:s" : "min:s");
  if (s.peak_memory_bytes > 0) add("peak memory", human_bytes(s.peak_memory_bytes), "");
  if (rows.size() == 1) return html_paragraph("There are no results yet.");
  return html_table(
      "Losses are means over targets; validation and test loss after the last step, best validation loss: the lowest "
      "during training. Excess: validation loss minus the loss of the dataset's own distribution on the same targets.",
      rows, {0, 2});
}

std::string heads_html(const fs::path& file) {
  const CsvTable heads(file);
  constexpr const char* kShares[] = {"current", "previous", "first", "duplicate", "induction"};
  std::vector<std::vector<HtmlCell>> rows{
      {"head", "name", "current", "previous", "first", "duplicate", "induction", "entropy", "distance", "loss rise"}};
  const auto number = [&](size_t row, const char* column) { return heads.number(row, column).value_or(NAN); };
  for (size_t i = 0; i < heads.rows(); ++i) {
    std::vector<HtmlCell> row{heads.text(i, "layer") + "." + heads.text(i, "head"), heads.text(i, "name")};
    for (const char* share : kShares) row.emplace_back(fmt::format("{:.2f}", number(i, share)));
    row.emplace_back(fmt::format("{:.2f}", number(i, "entropy")));
    row.emplace_back(fmt::format("{:.1f}", number(i, "distance")));
    row.emplace_back(fmt::format("{:+.4f}", number(i, "mean_ablation")));
    rows.push_back(row);
  }
  return html_table(
             "Heads as layer.head, with the shares of their attention on the current, the previous and the "
             "first token, on earlier copies of the token (duplicate) and on the tokens after those (induction).",
             rows, {0, 1}) +
         html_paragraph(
             "Entropy in nats; distance: mean, in tokens; loss rise: if the output of the head is replaced by its mean "
             "(mean ablation).");
}

// What heed inspect left in the run folder: the picture only if heed drew it.
std::string inspection_html(const fs::path& folder) {
  const fs::path heads = folder / kInspectFolder / "heads.csv", picture = folder / kInspectFolder / "attention.svg";
  std::string text;
  if (is_there(heads)) text += heads_html(heads);
  if (is_there(picture) && may_replace_picture(picture)) {
    text +=
        html_svg_image(read_file(picture), "Heat maps of the attention patterns, one for each head",
                       "Attention patterns of the first inspected sequence, by heed inspect; rows: queries, columns: "
                       "keys.");
  }
  return text.empty() ? "" : "<h2>Attention heads</h2>\n" + text;
}

}  // namespace

ReportPage run_page(const fs::path& folder) {
  require<ConfigError>(
      is_there(folder / "summary.json"),
      "{} is neither a run folder (it has no summary.json) nor a sweep folder: give the train.run_dir of heed train, "
      "or the folder that heed ablate wrote",
      data::quoted_path(folder.string()));
  const StoredSummary stored = read_summary(folder / "summary.json");
  const auto rows = is_there(folder / "metrics.csv") ? read_metrics(folder / "metrics.csv") : std::vector<MetricsRow>();
  ReportPage page{.title = folder_name(folder), .main = html_paragraph("A training run of heed."), .no_picture = {}};
  page.main += facts_html(stored, rows.empty() ? 0 : rows.back().step);
  page.main += "<h2>Results</h2>\n" + numbers_html(stored.summary);
  page.main += "<h2>Curves</h2>\n";
  add_curves(page, folder, "Loss, learning rate, gradient norm and speed over the training steps.");
  page.main += inspection_html(folder);
  page.main += "<h2>Config</h2>\n" + html_preformatted(read_file(folder / "config.toml"));
  return page;
}

}  // namespace heed::train
