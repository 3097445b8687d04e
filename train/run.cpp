#include "train/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "train/checkpoint_folder.hpp"
#include "train/comm/agreement.hpp"
#include "train/memory_table.hpp"
#include "train/reporter.hpp"
#include "train/snapshot.hpp"
#include "train/stop_signal.hpp"
#include "train/trainer.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Run {
 public:
  Run(const Config& config, const RunOptions& options, comm::Ranks& ranks)
      : config_(config),
        ranks_(ranks),
        trainer_(config, ranks),
        checkpoints_(config.train.run_dir, config.train.keep_checkpoints),
        reporter_(trainer_),
        has_validation_(trainer_.has_windows(data::Split::validation)),
        last_step_(config.train.stop_after == 0 ? config.train.steps : config.train.stop_after) {
    std::optional<int64_t> resumed_step;
    comm::agree(ranks_, [&] {
      if (ranks_.is_root()) folder_.emplace(config, options.resume);
    });
    if (options.resume) {
      comm::agree(ranks_, [&] { resumed_step = load(); });
      // What decides whether a save follows must be the same, too.
      comm::require_same(ranks_, "checkpoint",
                         fmt::format("update {}, best validation loss {}", *resumed_step,
                                     state_.best_val_loss ? fmt::format("{:.17g}", *state_.best_val_loss) : "none"));
      trainer_.require_same_weights();
    }
    comm::agree(ranks_, [&] {
      if (folder_) begin(resumed_step);
    });
  }

  Summary train() {
    const StopSignal signal;
    while (trainer_.step() < last_step_ && !must_stop()) update();
    // Also where nothing was left to do: the checkpoint may have been another process's.
    if (saved_step_ != trainer_.step()) save();
    const bool stopped = trainer_.step() < last_step_;
    if (stopped && reporter_.failure().empty()) {
      const char* name = StopSignal::received();
      reporter_.line(fmt::format("stopped       by {} after update {}; go on with --resume",
                                 name != nullptr ? name : "a signal to another rank", trainer_.step()));
    }
    measure_waiting();
    const Summary result = stopped ? summary() : finish();
    require<Error>(reporter_.failure().empty(), "{}; the run is saved after update {}", reporter_.failure(),
                   trainer_.step());
    return result;
  }

 private:
  // The root's part.
  void begin(std::optional<int64_t> resumed_step) {
    // Whether the disk takes files shows before any of the run is touched.
    checkpoints_.prepare();
    folder_->begin(resumed_step);
    for (const std::string& notice : folder_->notices()) reporter_.line("notice        " + notice);
    reporter_.start(folder_->path());
    if (const std::string changes = trainer_.source().text_changes(); !changes.empty())
      reporter_.line("notice        the text is read with: " + changes);
    if (!has_validation_)
      reporter_.line("validation    none: the data has no such split, and there will be no best.h5");
    if (resumed_step) reporter_.line(fmt::format("resumed       after update {}", *resumed_step));
    require<Error>(reporter_.failure().empty(), "{}", reporter_.failure());
  }

  bool wishes_to_stop() const { return StopSignal::received() != nullptr || !reporter_.failure().empty(); }
  // Several ranks agree on it in each update.
  bool must_stop() const { return ranks_.size() == 1 ? wishes_to_stop() : agreed_stop_; }

  // Gives the updates that are done.
  int64_t load() {
    const LoadedCheckpoint loaded = checkpoints_.load_newest();
    for (const std::string& notice : loaded.notices) reporter_.line("notice        " + notice);
    state_ = restore(trainer_, loaded.content);
    if (!loaded.has_its_best) state_.best_val_loss.reset();
    wall_seconds_before_ = state_.wall_seconds;
    require<ConfigError>(trainer_.step() <= last_step_,
                         "resume: the checkpoint has {} updates already, {} = {} is less", trainer_.step(),
                         config_.train.stop_after == 0 ? "train.steps" : "train.stop_after", last_step_);
    return trainer_.step();
  }

  double rate() const { return state_.seconds > 0 ? static_cast<double>(state_.tokens) / state_.seconds : 0; }

  void update() {
    const auto begin = Clock::now();
    const Update update = trainer_.update(wishes_to_stop());
    agreed_stop_ = update.must_stop;
    const double seconds = seconds_since(begin);
    state_.seconds += seconds;
    seconds_here_ += seconds;
    ++updates_here_;
    state_.tokens += update.targets;
    if (!measured_) {
      if (update.step == 1) reporter_.check_first_loss(update.loss);
      reporter_.line(measured_memory(memory_report(trainer_.device())));
      measured_ = true;
    }
    state_.train_loss = update.loss;
    reporter_.update(update, rate());
    const bool last = update.step == config_.train.steps;
    const bool evaluates = has_validation_ && (last || update.step % config_.train.eval_interval == 0);
    // Always the same windows, so that the best is the best of equals; finish() takes the whole split.
    if (evaluates) evaluate(config_.train.eval_batches);
    state_.wall_seconds = wall_seconds_before_ + seconds_since(begin_);
    if (folder_) record(update, evaluates);
    if (evaluates) save_if_best();
    if (config_.train.save_interval > 0 && update.step % config_.train.save_interval == 0) save();
  }

  void record(const Update& update, bool evaluated) {
    folder_->write(MetricsRow{.step = update.step,
                              .tokens = state_.tokens,
                              .train_loss = update.loss,
                              .val_loss = evaluated ? std::optional(validation_->loss) : std::nullopt,
                              .learning_rate = update.learning_rate,
                              .grad_norm = update.grad_norm,
                              .tokens_per_s = rate(),
                              .seconds = state_.wall_seconds});
    if (evaluated || update.step % config_.train.log_interval == 0) folder_->flush();
  }

  void evaluate(int64_t batches) {
    validation_ = trainer_.evaluate(data::Split::validation, batches);
    reporter_.evaluation(trainer_.step(), *validation_);
  }

  // Behind the row of the evaluation: a checkpoint never knows more than metrics.csv.
  void save_if_best() {
    // A NaN is not below anything, so it never becomes the best.
    if (!(validation_->loss < state_.best_val_loss.value_or(std::numeric_limits<double>::infinity()))) return;
    state_.best_val_loss = validation_->loss;
    const CheckpointContent content = snapshot(trainer_, state_);
    if (!folder_) return;
    folder_->sync();
    checkpoints_.save_best(content);
  }

  void measure_waiting() {
    if (ranks_.size() == 1 || trainer_.device() != Device::cpu || updates_here_ == 0) return;
    double sum = 0, most = 0;
    for (const double waited : ranks_.gather(trainer_.communicator().waited_seconds())) {
      sum += waited;
      most = std::max(most, waited);
    }
    const auto updates = static_cast<double>(updates_here_);
    waited_s_per_update_ = sum / ranks_.size() / updates;
    reporter_.line(
        fmt::format("ranks         an update of {:.2f} ms waits {:.2f} ms for the others (the most on one rank: "
                    "{:.2f} ms)",
                    seconds_here_ / updates * 1e3, *waited_s_per_update_ * 1e3, most / updates * 1e3));
  }

  void save() {
    state_.wall_seconds = wall_seconds_before_ + seconds_since(begin_);
    trainer_.require_same_weights();
    const CheckpointContent content = snapshot(trainer_, state_);
    saved_step_ = trainer_.step();
    if (!folder_) return;
    folder_->sync();
    checkpoints_.save_last(content);
  }

  Summary summary() const {
    Summary s{.steps = trainer_.step(), .parameters = trainer_.model().parameters().parameters()};
    s.train_loss = state_.train_loss;
    if (validation_) {
      s.val_loss = validation_->loss;
      s.excess = validation_->excess;
    }
    s.best_val_loss = state_.best_val_loss;
    const auto entropies = trainer_.source().entropies(config_.model.seq_len);
    if (!entropies.empty()) s.entropy = entropies.back().nats;
    s.tokens_per_s = rate();
    s.seconds = wall_seconds_before_ + seconds_since(begin_);
    s.waited_s_per_update = waited_s_per_update_;
    s.peak_memory_bytes = memory_report(trainer_.device()).total.peak_bytes;
    return s;
  }

  // The whole splits; a run that was already complete is evaluated again.
  Summary finish() {
    if (has_validation_ && (!validation_ || !validation_->whole_split)) evaluate(0);
    Summary s = summary();
    if (trainer_.has_windows(data::Split::test)) s.test_loss = trainer_.evaluate(data::Split::test, 0).loss;
    s.seconds = wall_seconds_before_ + seconds_since(begin_);
    if (!folder_) return s;
    folder_->write(s);
    reporter_.end(s, folder_->path());
    return s;
  }

  Config config_;
  comm::Ranks& ranks_;
  Trainer trainer_;
  std::optional<RunFolder> folder_;  // the root's: other ranks write nothing
  CheckpointFolder checkpoints_;
  Reporter reporter_;
  bool has_validation_;
  int64_t last_step_;
  RunState state_;
  double wall_seconds_before_ = 0;  // of the processes before this one
  std::optional<Evaluation> validation_;
  std::optional<int64_t> saved_step_;
  std::optional<double> waited_s_per_update_;
  double seconds_here_ = 0;  // in updates of this process
  int64_t updates_here_ = 0;
  bool measured_ = false, agreed_stop_ = false;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

Summary run_training(const Config& config, const RunOptions& options, comm::Ranks& ranks) {
  return Run(config, options, ranks).train();
}
Summary run_training(const Config& config, const RunOptions& options) {
  return run_training(config, options, *comm::single_rank());
}

}  // namespace heed::train
