#include "train/metrics.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "autograd/core/check.hpp"
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

// Without an empty last part, which "runs/x/" has, so that a name can be put behind it.
fs::path plain_path(const std::string& text) {
  const fs::path path = fs::absolute(text).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string json_number(std::optional<double> value) { return value ? json::number(*value) : "null"; }

constexpr const char* kHeader = "step,tokens,train_loss,val_loss,learning_rate,grad_norm,tokens_per_s,seconds\n";

// The rows of the updates up to `step`, behind the header.
std::string rows_until(const fs::path& path, int64_t step) {
  std::ifstream file(path);
  std::string kept = kHeader, line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    // A row that a kill cut off has no end, and its update lies behind the checkpoint.
    if (file.eof() || std::atoll(line.c_str()) > step) break;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

RunFolder::RunFolder(const Config& config, std::optional<int64_t> resumed_step) : path_(config.train.run_dir) {
  const fs::path folder = plain_path(path_);
  std::string metrics = kHeader;
  try {
    if (resumed_step) {
      metrics = rows_until(folder / "metrics.csv", *resumed_step);
    } else if (fs::exists(folder / "metrics.csv") || fs::exists(folder / "checkpoints")) {
      moved_to_ = move_aside(folder);
    }
    fs::create_directories(folder);
  } catch (const fs::filesystem_error& error) {
    fail(folder, error.code().message());
  }
  write_file(folder / "config.toml", config_to_toml(config));
  write_file(folder / "metrics.csv", metrics);
  metrics_ = std::fopen((folder / "metrics.csv").c_str(), "a");
  if (metrics_ == nullptr) fail(folder / "metrics.csv", std::strerror(errno));
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

void RunFolder::fail_to_record() const {
  throw CheckpointError(fmt::format("cannot write {}: {}; the run goes on from its last checkpoint with --resume",
                                    (plain_path(path_) / "metrics.csv").string(), std::strerror(errno)));
}

void RunFolder::write(const Summary& s) const {
  std::string text = fmt::format("{{\n  \"steps\": {},\n  \"parameters\": {},\n", s.steps, s.parameters);
  const std::pair<const char*, std::optional<double>> numbers[] = {
      {"train_loss", s.train_loss},     {"val_loss", s.val_loss}, {"best_val_loss", s.best_val_loss},
      {"test_loss", s.test_loss},       {"entropy", s.entropy},   {"excess", s.excess},
      {"tokens_per_s", s.tokens_per_s}, {"seconds", s.seconds}};
  for (const auto& [key, value] : numbers) text += fmt::format("  \"{}\": {},\n", key, json_number(value));
  text += fmt::format("  \"peak_memory_bytes\": {}\n}}\n", s.peak_memory_bytes);
  write_file(fs::path(path_) / "summary.json", text);
}

}  // namespace heed::train
