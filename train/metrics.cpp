#include "train/metrics.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "autograd/core/check.hpp"
#include "data/posix_file.hpp"
#include "train/durable_file.hpp"
#include "train/json.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw ConfigError(fmt::format("train.run_dir: cannot write {}: {}; choose another folder with train.run_dir=…",
                                fs::absolute(path).string(), reason));
}

std::string move_aside(const fs::path& path) {
  for (int number = 1;; ++number) {
    const fs::path free_name = path.string() + "." + std::to_string(number);
    if (fs::exists(free_name)) continue;
    fs::rename(path, free_name);
    return free_name.string();
  }
}

void write_file(const fs::path& path, const std::string& text) {
  try {
    write_file_durably(path, text);
  } catch (const CheckpointError& error) {
    fail(path, error.what());
  }
}

// Without links, so that what is moved aside is the folder itself, and without an empty last part, which "runs/x/" has,
// so that a name can be put behind it.
fs::path real_path(const std::string& text) {
  const fs::path path = fs::weakly_canonical(fs::absolute(text));
  return path.has_filename() ? path : path.parent_path();
}

std::string json_number(std::optional<double> value) { return value ? json::number(*value) : "null"; }

constexpr std::string_view kHeader = "step,tokens,train_loss,val_loss,learning_rate,grad_norm,tokens_per_s,seconds\n";

struct Rows {
  std::string text = std::string(kHeader);
  int64_t last_step = 0;
};

// The rows of the updates up to `step`. What stands behind them is not looked at: a kill may have cut it off.
Rows rows_until(std::string_view text, const std::string& name, int64_t step) {
  require<DataError>(text.starts_with(kHeader), "{} does not begin with the line {}", name,
                     kHeader.substr(0, kHeader.size() - 1));
  Rows kept;
  std::string_view rest = text.substr(kHeader.size());
  for (size_t end; kept.last_step < step && (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, number);
    require<DataError>(error == std::errc() && *stop == ',' && number > kept.last_step,
                       "{}: what stands behind the row of update {} is not the row of a later one", name,
                       kept.last_step);
    if (number > step) break;
    kept.text += rest.substr(0, end + 1);
    kept.last_step = number;
  }
  return kept;
}

// As above, nothing where there is no file.
Rows read_rows(const fs::path& path, int64_t step) {
  if (!fs::exists(fs::symlink_status(path))) return {};
  try {
    const data::PosixFile file(path.string(), data::PosixFile::Access::read);
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(0, text);
    return rows_until(text, file.name(), step);
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("resume: {}; mend it, or move it away and a new one begins", error.what()));
  }
}

}  // namespace

RunFolder::RunFolder(const Config& config, bool resume) : path_(config.train.run_dir), config_(config_to_toml(config)) {
  try {
    folder_ = real_path(path_);
    require<ConfigError>(!fs::is_symlink(folder_), "train.run_dir: {} is a link that leads nowhere", folder_.string());
    require<CheckpointError>(!resume || fs::exists(folder_), "resume: there is no run folder {}", folder_.string());
    if (!resume) fs::create_directories(folder_);
    lock_.emplace(folder_);
    if (resume || (!fs::exists(folder_ / "metrics.csv") && !fs::exists(folder_ / "checkpoints"))) return;
    notices_.push_back("an earlier run was moved to " + move_aside(folder_));
    fs::create_directories(folder_);
    lock_.emplace(folder_);
  } catch (const fs::filesystem_error& error) {
    fail(fs::absolute(path_), error.code().message());
  }
}

void RunFolder::begin(std::optional<int64_t> resumed_step) {
  const Rows rows = resumed_step ? read_rows(folder_ / "metrics.csv", *resumed_step) : Rows();
  if (rows.last_step < resumed_step.value_or(0)) {
    notices_.push_back(
        fmt::format("metrics.csv has no rows of the updates {} to {}", rows.last_step + 1, *resumed_step));
  }
  write_file(folder_ / "config.toml", config_);
  write_file(folder_ / "metrics.csv", rows.text);
  metrics_ = std::fopen((folder_ / "metrics.csv").c_str(), "a");
  if (metrics_ == nullptr) fail(folder_ / "metrics.csv", std::strerror(errno));
}

RunFolder::~RunFolder() {
  if (metrics_ != nullptr) std::fclose(metrics_);
}

void RunFolder::write(const MetricsRow& row) {
  const std::string text = fmt::format("{},{},{:.9g},{},{:.9g},{:.9g},{:.9g},{:.9g}\n", row.step, row.tokens,
                                       row.train_loss, row.val_loss ? fmt::format("{:.9g}", *row.val_loss) : "",
                                       row.learning_rate, row.grad_norm, row.tokens_per_s, row.seconds);
  if (std::fwrite(text.data(), 1, text.size(), metrics_) != text.size()) fail_to_record();
}

void RunFolder::flush() {
  if (std::fflush(metrics_) != 0 || std::ferror(metrics_) != 0) fail_to_record();
}

void RunFolder::sync() {
  flush();
  if (retry_interrupted([&] { return ::fsync(::fileno(metrics_)); }) != 0) fail_to_record();
}

void RunFolder::fail_to_record() const {
  throw CheckpointError(fmt::format("cannot write {}: {}; the run goes on from its last checkpoint with --resume",
                                    (folder_ / "metrics.csv").string(), std::strerror(errno)));
}

void RunFolder::write(const Summary& s) const {
  std::string text = fmt::format("{{\n  \"steps\": {},\n  \"parameters\": {},\n", s.steps, s.parameters);
  const std::pair<const char*, std::optional<double>> numbers[] = {{"train_loss", s.train_loss},
                                                                   {"val_loss", s.val_loss},
                                                                   {"best_val_loss", s.best_val_loss},
                                                                   {"test_loss", s.test_loss},
                                                                   {"entropy", s.entropy},
                                                                   {"excess", s.excess},
                                                                   {"waited_s_per_update", s.waited_s_per_update},
                                                                   {"tokens_per_s", s.tokens_per_s},
                                                                   {"seconds", s.seconds}};
  for (const auto& [key, value] : numbers) text += fmt::format("  \"{}\": {},\n", key, json_number(value));
  text += fmt::format("  \"peak_memory_bytes\": {}\n}}\n", s.peak_memory_bytes);
  write_file(folder_ / "summary.json", text);
}

}  // namespace heed::train
