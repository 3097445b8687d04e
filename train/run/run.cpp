#include "train/run/run.hpp"
#include "train/run/head_size_notice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/init.hpp"
#include "train/run/reporter.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/snapshot.hpp"
#include "train/run/stop_signal.hpp"
#include "train/trainer/memory.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Run {
 public:
  // config: already processed by fix_paths().
  Run(const Config& config, const RunOptions& options, comm::ProcessGroup& ranks)
      : config_(config),
        plot_(options.plot),
        png_(options.png),
        ranks_(ranks),
        pretrained_(read_on_all_ranks(config, options.resume, options.read_pretrained, ranks)),
        trainer_(config, ranks, comm::make_communicator, pretrained_.get()),
        checkpoints_(config.train.run_dir, config.train.keep_checkpoints),
        reporter_(trainer_),
        has_validation_(trainer_.has_sequences(data::Split::validation)),
        last_step_(config.train.stop_after == 0 ? config.train.steps : config.train.stop_after) {
    pretrained_.reset();
    std::optional<int64_t> resumed_step;
    comm::check_on_all_ranks(ranks_, [&] {
      if (!ranks_.is_root()) return;
      folder_.emplace(config, options.resume);
      show_notices();  // where an earlier run was moved, even if a later call fails
    });
    if (options.resume) {
      comm::check_on_all_ranks(ranks_, [&] { resumed_step = load(); });
      // The values that decide whether a checkpoint is saved must be the same on all ranks, too.
      comm::require_same_on_all_ranks(
          ranks_, "checkpoint",
          fmt::format("step {}, best validation loss {}", *resumed_step,
                      state_.best_val_loss ? fmt::format("{:.17g}", *state_.best_val_loss) : "none"));
      trainer_.require_same_weights();
    }
    comm::check_on_all_ranks(ranks_, [&] {
      if (folder_) begin(resumed_step);
    });
  }

  Summary train() {
    const StopSignal signal;
    try {
      if (state_.evaluation_pending) evaluate_pending();
      while (trainer_.step() < last_step_ && !must_stop()) step();
      // Also if no step was left to do: another process may have written the existing checkpoint.
      if (saved_step_ != trainer_.step()) {
        check_last_state();
        save();
      }
      return end();
    } catch (const std::exception& error) {
      end_by_error(error);
      throw;
    }
  }

 private:
  // On the root only.
  void begin(std::optional<int64_t> resumed_step) {
    // Before any file of the run changes: checks whether the disk accepts the checkpoints.
    checkpoints_.prepare(planned_checkpoints());
    folder_->begin(resumed_step);
    for (const std::string& notice : trainer_.config().notices) reporter_.line("notice        " + notice);
    const std::optional<std::string> head_size = head_size_notice(trainer_.config(), trainer_.device());
    if (head_size && !resumed_step) reporter_.line("notice        " + *head_size);
    const std::string changes = trainer_.dataset().text_changes();
    if (!changes.empty()) reporter_.line("notice        text normalized: " + changes);
    show_notices();
    reporter_.start(folder_->path().string());
    if (!has_validation_)
      reporter_.line("validation    none: the data has no such split, and there will be no best.h5");
    if (resumed_step) reporter_.line(fmt::format("resumed       at step {}", *resumed_step));
    if (reporter_.failure().empty()) return;
    folder_->write(Summary{.status = RunStatus::failed, .reason = reporter_.failure(), .steps = trainer_.step()});
    throw Error(reporter_.failure());
  }

  PlannedCheckpoints planned_checkpoints() const {
    const int64_t left = std::max<int64_t>(last_step_ - trainer_.step(), 0), interval = config_.train.save_interval;
    return {.file_bytes = snapshot_file_bytes(trainer_),
            .saves = 1 + (interval == 0 ? 0 : left / interval),
            .has_best = has_validation_};
  }

  void show_notices() {
    for (const std::string& notice : checkpoints_.take_notices()) reporter_.line("notice        " + notice);
    if (!folder_) return;
    for (const std::string& notice : folder_->take_notices()) reporter_.line("notice        " + notice);
  }

  // This rank requests a stop, which always follows a save.
  bool wishes_to_stop() const {
    return StopSignal::received() != 0 || !reporter_.failure().empty() || !write_failure_.empty();
  }
  // Several ranks agree on a stop in each step (StepResult::must_stop).
  bool must_stop() const { return agreed_stop_ || (ranks_.size() == 1 && wishes_to_stop()); }

  // Restores the newest checkpoint. Returns the number of steps done.
  int64_t load() {
    const LoadedCheckpoint loaded = checkpoints_.load_newest();
    for (const std::string& notice : loaded.notices) reporter_.line("notice        " + notice);
    Restored restored = restore(trainer_, loaded.content);
    state_ = std::move(restored.state);
    for (const std::string& notice : restored.notices) reporter_.line("notice        " + notice);
    if (!loaded.has_its_best) state_.best_val_loss.reset();
    forget_incomparable_best();
    wall_seconds_before_ = state_.wall_seconds;
    require<ConfigError>(trainer_.step() <= last_step_,
                         "resume: the checkpoint is at step {}, {} = {} must be at least that", trainer_.step(),
                         config_.train.stop_after == 0 ? "train.steps" : "train.stop_after", last_step_);
    return trainer_.step();
  }

  // A loss over fewer or other sequences is not comparable with the losses of this run.
  void forget_incomparable_best() {
    const int64_t sequences = trainer_.eval_sequences(data::Split::validation, config_.train.eval_batches);
    if (!state_.best_val_loss || state_.best_val_sequences == sequences) return;
    reporter_.line(fmt::format(
        "notice        best_val_loss is reset: {:.4f} was measured on {} validation sequences, train.eval_batches = {} "
        "now covers {}",
        *state_.best_val_loss, state_.best_val_sequences, config_.train.eval_batches, sequences));
    state_.best_val_loss.reset();
  }

  double rate() const { return state_.seconds > 0 ? static_cast<double>(state_.tokens) / state_.seconds : 0; }

  void step() {
    std::optional<ParameterNormMeter> layers;
    if (folder_ && folder_->log().wants_layers(trainer_.step() + 1)) layers.emplace(trainer_.model().parameters());
    const auto begin = Clock::now();
    const StepResult result = trainer_.train_step(wishes_to_stop());
    agreed_stop_ = result.must_stop;
    const double seconds = seconds_since(begin);
    state_.seconds += seconds;
    seconds_here_ += seconds;
    ++steps_here_;
    state_.tokens += result.targets;
    if (layers) write_log([&](RunLog& log) { log.write(result.step, layers->measure()); });
    if (!measured_) {
      if (result.step == 1 && config_.train.init_from.empty()) reporter_.check_first_loss(result.loss);
      reporter_.line(measured_memory(memory_report(trainer_.device())));
      measured_ = true;
    }
    state_.train_loss = result.loss;
    reporter_.show_step(result, rate(), seconds);
    const bool last = result.step == config_.train.steps;
    const bool is_due = has_validation_ && (last || result.step % config_.train.eval_interval == 0);
    // Always the same sequences, so that the candidates for best_val_loss are comparable; end() evaluates those of
    // train.final_eval.
    std::optional<Evaluation> evaluation;
    state_.evaluation_pending = is_due;
    try {
      if (is_due) evaluation = evaluate(config_.train.eval_batches);
    } catch (const std::exception&) {
      record(result, {});  // the step itself is complete
      throw;
    }
    state_.evaluation_pending = is_due && !evaluation;
    record(result, evaluation);
    if (evaluation) save_if_best(*evaluation);
    if (config_.train.save_interval > 0 && result.step % config_.train.save_interval == 0) save();
  }

  // A failed write ends the run like a signal: on all ranks, after a save.
  template <class Write>
  void write_log(Write write) {
    if (!folder_ || !write_failure_.empty()) return;
    try {
      write(folder_->log());
    } catch (const Error& error) {
      write_failure_ = error.what();
    }
  }

  void record(const StepResult& result, const std::optional<Evaluation>& evaluation) {
    state_.wall_seconds = wall_seconds_before_ + seconds_since(begin_);
    const MetricsRow row{.step = result.step,
                         .tokens = state_.tokens,
                         .train_loss = result.loss,
                         .val_loss = evaluation ? std::optional(evaluation->loss) : std::nullopt,
                         .learning_rate = result.learning_rate,
                         .grad_norm = result.grad_norm,
                         .tokens_per_s = rate(),
                         .seconds = state_.wall_seconds,
                         .val_loss_ema = evaluation ? evaluation->loss_ema : std::nullopt};
    write_log([&](RunLog& log) { log.write(row, evaluation); });
  }

  // Returns nullopt on all ranks if a rank requested a stop.
  std::optional<Evaluation> evaluate(int64_t batches, data::Split split = data::Split::validation,
                                     bool is_final = false) {
    std::optional<Evaluation> evaluation = evaluate_weights(batches, split, EvaluatedWeights::last);
    if (!evaluation) return {};
    if (config_.optim.ema_decay > 0) {
      const std::optional<Evaluation> average = evaluate_weights(batches, split, EvaluatedWeights::average);
      if (!average) return {};
      evaluation->loss_ema = average->loss;
    }
    if (split != data::Split::validation) return evaluation;
    validation_ = evaluation;
    validation_step_ = trainer_.step();
    reporter_.evaluation(trainer_.step(), *evaluation, is_final);
    return evaluation;
  }

  std::optional<Evaluation> evaluate_weights(int64_t batches, data::Split split, EvaluatedWeights weights) {
    const auto progress = reporter_.evaluating(split, batches, weights, [this] { return wishes_to_stop(); });
    const std::optional<Evaluation> evaluation = trainer_.evaluate(split, batches, progress, weights);
    if (!evaluation) agreed_stop_ = true;
    if (!evaluation) return {};
    if (!std::isfinite(evaluation->loss))
      trainer_.report_diverged_evaluation(split, batches, evaluation->loss, weights);
    return evaluation;
  }

  // A state whose loss is not finite must not become last.h5, and the final evaluation, which would detect it, runs
  // after the save.
  void check_last_state() {
    if (validation_step_ == trainer_.step()) return;
    for (const data::Split split : {data::Split::validation, data::Split::test}) {
      if (!trainer_.has_sequences(split)) continue;
      const double loss = trainer_.evaluate(split, 1).loss;
      if (!std::isfinite(loss)) trainer_.report_diverged_evaluation(split, 1, loss);
      return;
    }
  }

  // The evaluation of the resumed step, which a signal had interrupted.
  void evaluate_pending() {
    const std::optional<Evaluation> evaluation = evaluate(config_.train.eval_batches);
    if (!evaluation) return;
    write_log([&](RunLog& log) { log.set_evaluation(trainer_.step(), *evaluation); });
    state_.evaluation_pending = !write_failure_.empty();
    save_if_best(*evaluation);
  }

  // Called after the row of the evaluation is written: a checkpoint must not be ahead of metrics.csv.
  void save_if_best(const Evaluation& evaluation) {
    if (!(evaluation.loss < state_.best_val_loss.value_or(std::numeric_limits<double>::infinity()))) return;
    state_.best_val_loss = evaluation.loss;
    state_.best_val_targets = evaluation.targets;
    state_.best_val_sequences = trainer_.eval_sequences(data::Split::validation, config_.train.eval_batches);
    const CheckpointContent content = snapshot(trainer_, state_);
    if (!folder_) return;
    write_log([](RunLog& log) { log.sync(); });
    try {
      checkpoints_.save_best(content);
    } catch (const CheckpointError& error) {
      // The run ends after the save of this step; the run that resumes it evaluates again and finds this best loss.
      write_failure_ = error.what();
      state_.evaluation_pending = true;
    }
  }

  void save() {
    state_.wall_seconds = wall_seconds_before_ + seconds_since(begin_);
    trainer_.require_same_weights();
    const CheckpointContent content = snapshot(trainer_, state_);
    saved_step_ = trainer_.step();
    if (!folder_) return;
    write_log([](RunLog& log) { log.sync(); });
    checkpoints_.save_last(content);
    show_notices();
  }

  void measure_waiting() {
    if (ranks_.size() == 1 || trainer_.device() != Device::cpu || steps_here_ == 0) return;
    double sum = 0, most = 0;
    for (const double waited : ranks_.gather(trainer_.communicator().waited_seconds())) {
      sum += waited;
      most = std::max(most, waited);
    }
    const auto steps = static_cast<double>(steps_here_);
    waited_s_per_step_ = sum / ranks_.size() / steps;
    reporter_.line(
        fmt::format("ranks         {:.2f} ms per step, {:.2f} ms of it waiting for communication (the most on "
                    "one rank: {:.2f} ms)",
                    seconds_here_ / steps * 1e3, *waited_s_per_step_ * 1e3, most / steps * 1e3));
  }

  Summary summary() const {
    Summary s{.steps = trainer_.step(), .parameters = trainer_.model().parameters().parameters()};
    s.train_loss = state_.train_loss;
    if (validation_ && validation_step_ == trainer_.step()) {
      s.val_loss = validation_->loss;
      s.val_targets = validation_->targets;
      s.val_loss_ema = validation_->loss_ema;
      s.excess = validation_->excess;
      s.bits_per_byte = validation_->bits_per_byte();
    }
    s.best_val_loss = state_.best_val_loss;
    if (s.best_val_loss && state_.best_val_targets > 0) s.best_val_targets = state_.best_val_targets;
    s.entropies = trainer_.dataset().entropies(config_.model.seq_len);
    if (!s.entropies.empty()) s.entropy = s.entropies.back().nats;
    s.tokens_per_s = rate();
    s.seconds = wall_seconds_before_ + seconds_since(begin_);
    s.waited_s_per_step = waited_s_per_step_;
    s.peak_memory_bytes = memory_report(trainer_.device()).total.peak_bytes;
    return s;
  }

  // The number of the signal that any rank received, 0 if none did. Collective.
  int agreed_signal() {
    const std::vector<int> signals = ranks_.gather(StopSignal::received());
    return *std::max_element(signals.begin(), signals.end());
  }

  Summary end() {
    measure_waiting();
    std::optional<Evaluation> test;
    const bool ran_out = trainer_.step() == last_step_ && agreed_signal() == 0;
    if (ran_out) test = evaluate_at_the_end();
    Summary s = summary();
    if (test) s.test_loss = test->loss;
    if (test) s.test_loss_ema = test->loss_ema;
    s.stop_signal = agreed_signal();
    // A closed terminal also makes printing fail; SIGHUP is then the reason to report.
    const std::string unprinted = s.stop_signal == 0 ? reporter_.failure() : "";
    set_status(s, config_, unprinted.empty() ? write_failure_ : unprinted);
    write_log([&](RunLog& log) { log.end(s.status); });
    const std::string failure = unprinted.empty() ? write_failure_ : unprinted;  // of tensorboard.end(), too
    set_status(s, config_, failure);
    if (folder_) folder_->write(s);
    if (s.stop_signal != 0) {
      reporter_.line(fmt::format("stopped       by {} at step {}, checkpoint saved; continue with --resume",
                                 stop_signal_name(s.stop_signal), s.steps));
    } else if (failure.empty() && folder_) {
      reporter_.end(s, state_.seconds, folder_->path().string());
      plot();
    }
    require<Error>(unprinted.empty(), "{}; the run is saved at step {}", unprinted, s.steps);
    require<CheckpointError>(failure.empty(), "{}; the run is saved at step {}, continue it with --resume", failure,
                             s.steps);
    return s;
  }

  // The evaluation at the end (train.final_eval), also of a run that was complete already. Returns that of the test
  // split.
  std::optional<Evaluation> evaluate_at_the_end() {
    if (config_.train.final_eval == FinalEval::none) return {};
    const int64_t batches = config_.train.final_eval == FinalEval::full ? 0 : config_.train.eval_batches;
    const int64_t sequences = trainer_.eval_sequences(data::Split::validation, batches);
    const bool is_known = validation_ && validation_step_ == trainer_.step() && validation_->sequences == sequences;
    if (has_validation_ && !is_known && !evaluate(batches, data::Split::validation, true)) return {};
    if (has_validation_) write_log([&](RunLog& log) { log.set_final(trainer_.step(), *validation_); });
    if (!trainer_.has_sequences(data::Split::test)) return {};
    return evaluate(batches, data::Split::test, true);
  }

  void plot() {
    if (!plot_) return;
    write_log([](RunLog& log) { log.flush(); });
    reporter_.line(plot_(folder_->path()));
    if (png_) write_log([&](RunLog& log) { log.write_picture(trainer_.step(), png_(folder_->path())); });
  }

  bool try_save() {
    try {
      save();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Saves the last complete step, if the error left the state intact and all ranks take part, and writes the error to
  // summary.json.
  void end_by_error(const std::exception& error) noexcept {
    try {
      const auto* shared = dynamic_cast<const comm::CollectiveError*>(&error);
      const int code = shared != nullptr ? shared->exit_code : comm::exit_code(error);
      // An error of data (3) or memory (5) leaves the state of the last step unchanged. Saving is collective.
      const bool is_whole = code == 3 || (code == 5 && dynamic_cast<const DeviceError*>(&error) == nullptr);
      const bool all_are_here = ranks_.size() == 1 || shared != nullptr;
      if (is_whole && all_are_here && trainer_.step() > 0 && saved_step_ != trainer_.step() && try_save()) {
        reporter_.line(
            fmt::format("saved         at step {}, before the error; continue with --resume", trainer_.step()));
      }
      if (!folder_) return;
      Summary s = summary();
      s.status = code == 6 ? RunStatus::diverged : RunStatus::failed;
      s.reason = error.what();
      write_log([&](RunLog& log) { log.end(s.status); });
      folder_->write(s);
      if (s.status == RunStatus::diverged) plot();
    } catch (const std::exception&) {
      // The first error is the one to report.
    }
  }

  Config config_;
  decltype(RunOptions::plot) plot_;
  decltype(RunOptions::png) png_;
  comm::ProcessGroup& ranks_;
  std::unique_ptr<const Pretrained> pretrained_;  // while the trainer is built
  Trainer trainer_;
  std::optional<RunFolder> folder_;  // on the root only: other ranks write nothing
  CheckpointFolder checkpoints_;
  Reporter reporter_;
  bool has_validation_;
  int64_t last_step_;
  RunState state_;
  double wall_seconds_before_ = 0;  // of earlier processes of this run
  std::optional<Evaluation> validation_;
  int64_t validation_step_ = -1;  // the step of validation_
  std::optional<int64_t> saved_step_;
  std::optional<double> waited_s_per_step_;
  std::string write_failure_;  // why metrics.csv, the event file or best.h5 could not be written
  double seconds_here_ = 0;    // in steps of this process
  int64_t steps_here_ = 0;
  bool measured_ = false, agreed_stop_ = false;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

Summary run_training(const Config& config, const RunOptions& options, comm::ProcessGroup& ranks) {
  Config fixed = config;
  comm::check_on_all_ranks(ranks, [&] { fix_paths(fixed); });
  return Run(fixed, options, ranks).train();
}
Summary run_training(const Config& config, const RunOptions& options) {
  return run_training(config, options, *comm::single_rank());
}

}  // namespace heed::train
