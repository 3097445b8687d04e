// metrics.csv: one row per training step.
//
// final_val_loss is set in the last row only: the validation loss at the end of the run (train.final_eval). val_loss is
// always the mean over train.eval_batches batches. A run with optim.ema_decay has two more columns, the same two losses
// of the averaged weights.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::train {

inline constexpr std::string_view kMetricsHeader =
    "step,tokens,train_loss,val_loss,learning_rate,grad_norm,tokens_per_s,seconds,final_val_loss\n";

inline constexpr std::string_view kMetricsHeaderWithAverage =
    "step,tokens,train_loss,val_loss,learning_rate,grad_norm,tokens_per_s,seconds,final_val_loss,val_loss_ema,"
    "final_val_loss_ema\n";

// Whether a file that starts with this text is a metrics.csv, of this version or of the previous one, which has no
// final_val_loss.
bool starts_with_metrics_header(std::string_view text);

struct MetricsRow {
  int64_t step = 0;    // steps done
  int64_t tokens = 0;  // targets processed since the start of the run
  double train_loss = 0;
  std::optional<double> val_loss = {};  // only if an evaluation followed this step
  double learning_rate = 0, grad_norm = 0, tokens_per_s = 0, seconds = 0;
  std::optional<double> final_val_loss = {};
  std::optional<double> val_loss_ema = {}, final_val_loss_ema = {};
};

// The rows of a metrics.csv, of this version or of the previous one, whose run may still be going on: a last line
// without its line feed is left out. Throws DataError with the file and the line.
std::vector<MetricsRow> read_metrics(const std::filesystem::path& path);

class MetricsFile {
 public:
  // Creates the file with its header. For a run that resumes after `resumed_step` steps, it keeps the rows up to that
  // step. has_average: with the columns of the averaged weights. Throws CheckpointError if the file cannot be written,
  // or if it exists and is not a metrics.csv.
  MetricsFile(const std::filesystem::path& path, std::optional<int64_t> resumed_step, bool has_average = false);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // The last step with a row.
  int64_t last_step() const { return last_step_; }
  // The functions below throw CheckpointError if writing fails.
  void write(const MetricsRow& row);
  void flush();
  // Returns when the rows are durable (fsync): a checkpoint must not be ahead of metrics.csv.
  void sync();
  // Sets columns in the row of this step, which must be the last row; no effect if the step has no row, and none on a
  // column without a value. Returns whether the row has changed.
  enum class Column { val_loss = 3, final_val_loss = 8, val_loss_ema = 9, final_val_loss_ema = 10 };
  bool set_last(int64_t step, const std::vector<std::pair<Column, std::optional<double>>>& cells);

 private:
  void open();
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  bool has_average_;
  int64_t last_step_ = 0;
  std::FILE* file_ = nullptr;
};

}  // namespace heed::train
