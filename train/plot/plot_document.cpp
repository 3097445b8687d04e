#include "train/plot/plot_document.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"
#include "data/io/utf8.hpp"
#include "train/output/json.hpp"
#include "train/output/number_text.hpp"
#include "train/plot/arm_list.hpp"
#include "train/plot/curve.hpp"
#include "train/plot/run_text.hpp"
#include "train/run/past_step.hpp"
#include "train/run/summary_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

struct RunFiles {
  std::vector<MetricsRow> rows;
  std::optional<StoredSummary> stored;  // nullopt: no summary.json
  std::optional<int64_t> until;         // RUN@STEP: the curves end there
};

struct GroupFiles {
  std::string name;
  std::vector<fs::path> folders;
  std::optional<int64_t> until = {};
};

// A text that is shown if it is the same for all runs.
class Common {
 public:
  void add(const std::string& text) {
    if (!is_given_) text_ = text;
    if (text_ != text) text_.clear();
    is_given_ = true;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool is_given_ = false;
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

RunFiles read_files(const fs::path& folder, std::optional<int64_t> until) {
  RunFiles files{.rows = {}, .stored = {}, .until = until};
  if (is_there(folder / "metrics.csv")) files.rows = read_metrics(folder / "metrics.csv");
  if (is_there(folder / "summary.json")) files.stored = read_summary(folder / "summary.json");
  if (until) std::erase_if(files.rows, [until](const MetricsRow& row) { return row.step > *until; });
  return files;
}

// Whether the curves reach the end of a complete run.
bool is_whole(const RunFiles& files) {
  return files.stored && is_complete(files.stored->summary, files.stored->config) &&
         (!files.until || *files.until >= files.stored->summary.steps);
}

RunStatus status_of(const RunFiles& files) { return files.stored ? files.stored->summary.status : RunStatus::running; }

std::string entropies_json(const std::vector<data::ContextEntropy>& entropies) {
  std::vector<std::string> list;
  for (const data::ContextEntropy& one : entropies)
    list.push_back(json::object({{"name", json::text(one.name)}, {"nats", json::number(one.nats)}}));
  return json::list(list);
}

// "diverged after step 41"
std::string end_text(const RunFiles& files) {
  const int64_t step = files.rows.empty() ? 0 : files.rows.back().step;
  if (files.until && !is_whole(files)) return fmt::format("up to step {}", step);
  const RunStatus status = status_of(files);
  if (status == RunStatus::running) return fmt::format("step {}, running or killed", step);
  const Summary& s = files.stored->summary;
  std::string text = fmt::format("{} after step {}", status_name(status), step);
  if (!is_whole(files)) return text;
  if (s.val_loss) text += ", val loss " + loss_text(*s.val_loss);
  if (s.excess) text += ", excess " + loss_text(*s.excess);
  return text;
}

// "2 of 3 complete, 1 diverged"; empty if all are complete.
std::string group_note(const std::vector<RunFiles>& runs) {
  const auto has_diverged = [](const RunFiles& run) { return status_of(run) == RunStatus::diverged; };
  const auto done = std::count_if(runs.begin(), runs.end(), is_whole);
  const auto diverged = std::count_if(runs.begin(), runs.end(), has_diverged);
  if (done == static_cast<int64_t>(runs.size())) return "";
  if (runs.size() == 1) return end_text(runs.front());
  return fmt::format("{} of {} complete{}", done, runs.size(),
                     diverged == 0 ? "" : fmt::format(", {} diverged", diverged));
}

std::string curve_json(const Curve& curve) {
  std::vector<std::string> steps, values, sd;
  for (const CurvePoint& point : curve) {
    steps.push_back(json::number(point.step));
    values.push_back(json::number(point.value));
    sd.push_back(json::number(point.sd));
  }
  return json::object({{"steps", json::list(steps)}, {"values", json::list(values)}, {"sd", json::list(sd)}});
}

std::string sample_json(const std::vector<double>& values) {
  std::vector<Curve> points;
  std::vector<std::string> texts;
  for (const double value : values) {
    points.push_back({{.step = 0, .value = value}});
    texts.push_back(json::number(value));
  }
  if (values.empty()) return json::object({{"values", "[]"}, {"mean", "null"}, {"sd", "null"}});
  const CurvePoint mean = mean_curve(points).front();
  return json::object(
      {{"values", json::list(texts)}, {"mean", json::number(mean.value)}, {"sd", json::number(mean.sd)}});
}

class Document {
 public:
  Document(const std::vector<GroupFiles>& groups, bool is_sweep_figure)
      : is_sweep_(is_sweep_figure),
        is_alone_(groups.size() == 1 && !is_sweep_figure),
        limit_(is_alone_ ? 800 : std::clamp<size_t>(1200 / std::max<size_t>(groups.size(), 1), 40, 400)) {
    for (const GroupFiles& group : groups) add(group);
  }

  std::string text(const std::string& title) const {
    std::vector<std::string> groups;
    const auto counts_excess = [](const Group& group) { return group.excess.size() == group.losses.size(); };
    const bool has_excess = has_excess_ && std::all_of(groups_.begin(), groups_.end(), counts_excess);
    for (const Group& group : groups_) {
      auto members = group.members;
      members.emplace_back("final", sample_json(has_excess ? group.excess : group.losses));
      groups.push_back(json::object(members));
    }
    return json::object({{"figure", is_sweep_ ? "\"sweep\"" : "\"runs\""},
                         {"title", json::text(data::printable(title))},
                         {"subtitles", json::list(subtitles())},
                         {"entropies", entropies_.text().empty() ? "[]" : entropies_.text()},
                         {"quantity", has_excess ? "\"excess\"" : "\"val_loss\""},
                         {"groups", json::list(groups)}});
  }

  bool has_rows() const { return has_rows_; }

 private:
  struct Group {
    std::vector<std::pair<std::string, std::string>> members;  // of its JSON object
    std::vector<double> losses, excess;                        // of its complete runs
  };

  void add(const GroupFiles& files) {
    Group group;
    std::vector<RunFiles> runs;
    for (const fs::path& folder : files.folders) {
      const RunFiles& run = runs.emplace_back(read_files(folder, files.until));
      has_rows_ = has_rows_ || !run.rows.empty();
      ++runs_;
      if (run.stored) add_summary(run, group);
    }
    const std::string note = is_alone_ ? "" : group_note(runs);
    if (is_alone_) end_ = end_text(runs.front());
    const std::string name = files.name + (note.empty() ? "" : fmt::format(" ({})", note));
    group.members.emplace_back("name", json::text(data::printable(name)));
    const auto add_curve = [&](const char* key, bool is_smoothed, auto column) {
      group.members.emplace_back(key, curve_json(thinned(mean_of(runs, is_smoothed, column), limit_)));
    };
    add_curve("val_loss", false, [](const MetricsRow& row) { return row.val_loss; });
    add_curve("train_loss_smoothed", true, [](const MetricsRow& row) { return row.train_loss; });
    add_curve("learning_rate", false, [](const MetricsRow& row) { return row.learning_rate; });
    add_curve("grad_norm_smoothed", true, [](const MetricsRow& row) { return row.grad_norm; });
    add_curve("tokens_per_s", false, [](const MetricsRow& row) { return row.tokens_per_s; });
    if (is_alone_) {
      add_curve("train_loss", false, [](const MetricsRow& row) { return row.train_loss; });
      add_curve("grad_norm", false, [](const MetricsRow& row) { return row.grad_norm; });
    }
    groups_.push_back(std::move(group));
  }

  template <class Column>
  Curve mean_of(const std::vector<RunFiles>& runs, bool is_smoothed, Column column) const {
    constexpr size_t kHalfWindows = 100;  // smoothing over a 50th of the run
    size_t longest = 0;
    for (const RunFiles& run : runs) longest = std::max(longest, run.rows.size());
    std::vector<Curve> curves;
    for (const RunFiles& run : runs) {
      const Curve curve = curve_of(run.rows, column);
      const auto stride = static_cast<int64_t>(longest / limit_ + 1);
      curves.push_back(is_smoothed ? smoothed(curve, longest / kHalfWindows, stride) : curve);
    }
    return mean_curve(curves);
  }

  void add_summary(const RunFiles& run, Group& group) {
    const StoredSummary& stored = *run.stored;
    const Summary& s = stored.summary;
    dataset_.add(dataset_text(stored.config));
    model_.add(model_text(stored.config.model));
    // A run that is going on does not know these two yet.
    if (s.parameters > 0) parameters_.add(count_text(static_cast<double>(s.parameters)) + " parameters");
    if (!s.entropies.empty()) entropies_.add(entropies_json(s.entropies));
    if (!is_whole(run)) return;
    if (s.val_loss && is_drawable(*s.val_loss)) group.losses.push_back(*s.val_loss);
    if (s.excess && is_drawable(*s.excess)) group.excess.push_back(*s.excess);
    has_excess_ = has_excess_ || s.excess;
  }

  std::vector<std::string> subtitles() const {
    const int64_t arms = static_cast<int64_t>(groups_.size());
    const std::string size = is_sweep_ ? plural(arms, "arm") + ", " + plural(runs_, "run") : "";
    std::vector<std::string> parts{size, dataset_.text(), model_.text(), parameters_.text()};
    std::erase(parts, "");
    std::vector<std::string> lines{fmt::format("{}", fmt::join(parts, " · ")), end_};
    std::erase(lines, "");
    for (std::string& line : lines) line = json::text(data::printable(line));
    return lines;
  }

  bool is_sweep_, is_alone_, has_rows_ = false, has_excess_ = false;
  size_t limit_;  // of points of one curve, so that the picture of many curves stays small
  int64_t runs_ = 0;
  Common dataset_, model_, parameters_, entropies_;
  std::string end_;  // of the one run
  std::vector<Group> groups_;
};

// The names of the folders alone if they are all different.
std::vector<std::string> names_of(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) names.push_back(folder_name(folder));
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : folders;
}

// Not a run that was moved aside or is being removed, "seed-1.1".
bool is_run_of_a_seed(const fs::path& folder) {
  const std::string name = folder.filename().string(), start = "seed-";
  return name.starts_with(start) && name.find_first_not_of("0123456789", start.size()) == std::string::npos &&
         is_there(folder / "metrics.csv");
}

std::vector<GroupFiles> arms_of(const fs::path& folder, const std::string& prefix) {
  std::vector<GroupFiles> groups;
  for (const ArmEntry& arm : read_arms(folder)) {
    GroupFiles& group = groups.emplace_back(GroupFiles{prefix + arm.name, {}});
    const fs::path runs = folder / "runs" / arm.folder;
    if (!is_there(runs)) continue;
    for (const auto& entry : fs::directory_iterator(runs)) {
      if (is_run_of_a_seed(entry.path())) group.folders.push_back(entry.path());
    }
    std::sort(group.folders.begin(), group.folders.end());
  }
  std::erase_if(groups, [](const GroupFiles& group) { return group.folders.empty(); });
  return groups;
}

}  // namespace

std::string plot_document(const std::vector<std::string>& folders) {
  const std::vector<std::string> names = names_of(folders);
  std::vector<GroupFiles> groups;
  bool is_any_sweep = false;
  for (size_t i = 0; i < folders.size(); ++i) {
    const std::optional<RunStep> at = parse_run_step(folders[i]);
    const fs::path folder = at ? at->run : fs::path(folders[i]);
    const std::optional<int64_t> until = at ? std::optional(at->step) : std::nullopt;
    if (is_sweep(folder)) {
      is_any_sweep = true;
      auto arms = arms_of(folder, folders.size() == 1 ? "" : names[i] + ": ");
      for (GroupFiles& arm : arms) arm.until = until;
      groups.insert(groups.end(), arms.begin(), arms.end());
      continue;
    }
    require<ConfigError>(
        is_there(folder / "metrics.csv"),
        "{} is neither a run folder (it has no metrics.csv) nor a sweep folder: give the train.run_dir of heed train, "
        "or the folder that heed ablate wrote",
        data::quoted_path(folder.string()));
    groups.push_back({names[i], {folder}, until});
  }
  const std::string title = fmt::format("{}", fmt::join(names, ", "));
  const Document document(groups, is_any_sweep);
  require<ConfigError>(document.has_rows(), "{}: there is nothing to plot before the first step", title);
  return document.text(title);
}

}  // namespace heed::train
