#include "train/ablate/ablation.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>

#include "autograd/core/check.hpp"
#include "train/ablate/child_run.hpp"
#include "train/ablate/results.hpp"
#include "train/ablate/shares.hpp"
#include "train/ablate/sweep_folder.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/plot/plot.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_mark.hpp"
#include "train/run/stop_signal.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Work of a run in arbitrary units, for the ETA: FLOPs are roughly proportional to it.
double work_of(const Arm& arm) {
  const nn::GptConfig& m = arm.config.model;
  const auto d = static_cast<double>(m.d_model), t = static_cast<double>(m.seq_len);
  const auto feed_forward = static_cast<double>(m.feed_forward_outputs() + m.feed_forward_size());
  const double layer = 4 * d * d + d * feed_forward + t * d;
  const int64_t steps = arm.config.train.stop_after > 0 ? arm.config.train.stop_after : arm.config.train.steps;
  return static_cast<double>(steps * arm.config.train.batch_size) * t * static_cast<double>(m.num_layers) * layer;
}

// Steps done by a run that is going on, from the last whole line of its metrics.csv.
int64_t steps_done(const fs::path& run_folder) {
  constexpr std::streamoff kTail = 400;
  std::ifstream file(run_folder / "metrics.csv", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t end = text.rfind('\n');
  if (end == std::string::npos || end == 0) return 0;
  const size_t begin = text.rfind('\n', end - 1);
  return begin == std::string::npos ? 0 : std::atoll(text.c_str() + begin + 1);
}

std::string last_line(const fs::path& log) {
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last.starts_with("heed: ") ? last.substr(6) : last;
}

class Ablation {
 public:
  Ablation(const Sweep& sweep, const AblationOptions& options)
      : sweep_(sweep), folder_(sweep), shares_(share_machine(sweep, options.jobs)), slots_(shares_.jobs) {
    for (size_t i = 0; i < sweep.arms.size(); ++i) {
      for (int64_t run = 0; run < sweep.seeds; ++run) {
        Task task{&sweep.arms[i], sweep.seed(sweep.arms[i], run), work_of(sweep.arms[i])};
        // The baseline first, the other arms in their order.
        tasks_.insert(i == sweep.baseline ? tasks_.begin() + run : tasks_.end(), task);
      }
    }
  }

  int run() {
    const StopSignal signal;
    std::signal(SIGCHLD, SIG_DFL);  // ignored by the parent process, it would leave no exit codes
    std::signal(SIGPIPE, SIG_IGN);  // then a closed stdout is an error, and the runs can save
    announce();
    take_finished();
    while (true) {
      const int stop = StopSignal::received();
      if (stop != 0) stop_all(stop);
      const bool has_ended = poll(), has_started = stop == 0 && start_next();
      if (has_ended || has_started) continue;
      if (running() == 0 && (stop != 0 || !retry_elsewhere())) break;
      draw();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    line_.erase();
    finish();
    return StopSignal::received();
  }

 private:
  struct Task {
    const Arm* arm = nullptr;
    uint32_t seed = 0;
    double work = 0;
    enum class State { waiting, running, done, failed, elsewhere } state = State::waiting;
  };
  struct Slot {
    std::optional<ChildRun> child;
    data::Descriptor lock;
    Task* task = nullptr;
    double work_before = 0;  // done by earlier processes
    Clock::time_point start{};
  };

  void announce() {
    print("sweep         {}: {} × {} = {}\n", sweep_.file_name, plural(static_cast<int64_t>(sweep_.arms.size()), "arm"),
          plural(sweep_.seeds, "seed"), plural(sweep_.num_runs(), "run"));
    print("folder        {}\n", folder_.path().string());
    const std::string each = shares_.devices.empty() ? plural(shares_.threads, "thread") + " each" : "one per device";
    print("runs          {} at a time, {}\n", shares_.jobs, each);
    if (!shares_.notice.empty()) print("notice        {}\n", shares_.notice);
    for (const std::string& notice : sweep_.notices) print("notice        {}\n", notice);
    if (sweep_.noise_sd) show_detectable(*sweep_.noise_sd, "noise_sd");
  }

  // sd: of the loss of one arm. Arms are at worst independent, so that a difference has twice its variance.
  void show_detectable(double sd, const std::string& source) {
    if (detectable_shown_ || sweep_.seeds < 2 || sweep_.arms.size() < 2) return;
    detectable_shown_ = true;
    const auto comparisons = static_cast<int64_t>(sweep_.arms.size()) - 1;
    const double found = detectable_difference(std::sqrt(2.0) * sd, sweep_.seeds, sweep_.significance, comparisons);
    line_.erase();
    const std::string text = fmt::format(
        "detectable    {} detect a difference in val loss of {}, or less if seeds move the arms alike, with a power of "
        "{:g} % (sd {} from {}; {} at {:g} % in all)",
        plural(sweep_.seeds, "seed"), number_text(found, 2), 100 * kPower, number_text(sd, 2), source,
        plural(comparisons, "comparison"), 100 * sweep_.significance);
    print("{}", wrap_words(text, terminal_columns(STDOUT_FILENO), 14));
  }

  // Counts the runs that earlier processes have completed.
  void take_finished() {
    for (Task& task : tasks_) {
      const auto result = folder_.result(*task.arm, task.seed);
      if (!result || !result->is_final(task.arm->config)) continue;
      task.state = Task::State::done;
      ++kept_;
    }
    if (kept_ > 0) print("done before   {}\n", plural(kept_, "run"));
    note_baseline();
  }

  int64_t running() const {
    return std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.child.has_value(); });
  }

  // Starts one run if a slot is free. Returns whether it has.
  bool start_next() {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& one) { return !one.child; });
    if (slot == slots_.end()) return false;
    for (Task& task : tasks_) {
      if (task.state == Task::State::waiting && try_start(task, *slot)) return true;
    }
    return false;
  }

  // The process that had locked a run may have ended without it. Returns whether one can be started after all.
  bool retry_elsewhere() {
    bool is_any = false;
    for (Task& task : tasks_) {
      if (task.state != Task::State::elsewhere || !folder_.lock_run(*task.arm, task.seed)) continue;
      task.state = Task::State::waiting;
      is_any = true;
    }
    return is_any;
  }

  // What keeps one run from being started keeps no other.
  bool try_start(Task& task, Slot& slot) {
    try {
      return start(task, slot);
    } catch (const std::exception& error) {
      fail(task, error.what(), 0);
      return false;
    }
  }

  bool start(Task& task, Slot& slot) {
    std::optional<data::Descriptor> lock = folder_.lock_run(*task.arm, task.seed);
    if (!lock) {
      task.state = Task::State::elsewhere;
      return false;
    }
    const fs::path run_folder = folder_.run_folder(*task.arm, task.seed);
    // Another process may have done it since take_finished().
    if (const auto result = folder_.result(*task.arm, task.seed); result && result->is_final(task.arm->config)) {
      task.state = Task::State::done;
      ++kept_;
      return false;
    }
    folder_.note_failure(*task.arm, task.seed, "");
    slot.work_before = has_checkpoints(run_folder) ? share_done(task) * task.work : 0;
    slot.child.emplace(options_for(task, run_folder, slot, *lock));
    slot.lock = std::move(*lock);
    slot.task = &task;
    slot.start = Clock::now();
    task.state = Task::State::running;
    return true;
  }

  ChildOptions options_for(const Task& task, const fs::path& run_folder, const Slot& slot,
                           const data::Descriptor& lock) const {
    ChildOptions options;
    options.keep_open = lock.number();  // a run stays locked until its process has ended, even if this one is killed
    if (has_checkpoints(run_folder)) {
      options.arguments = {"train", run_folder.string(), "--resume"};
    } else {
      remove_unsaved(run_folder);
      options.arguments = {"train", folder_.config_file(*task.arm).string(), fmt::format("seed={}", task.seed),
                           "train.run_dir=" + run_folder.string()};
    }
    options.arguments.emplace_back("--no-plot");
    options.environment.emplace_back("OMP_NUM_THREADS", fmt::format("{}", shares_.threads));
    if (!shares_.devices.empty()) {
      const auto index = static_cast<size_t>(&slot - slots_.data());
      options.environment.emplace_back("CUDA_VISIBLE_DEVICES", shares_.devices[index % shares_.devices.size()]);
    }
    options.log = folder_.log_file(*task.arm, task.seed);
    return options;
  }

  // A run that was killed before its first checkpoint starts again: heed train would move its folder aside. Nothing is
  // removed that heed train did not make.
  static void remove_unsaved(const fs::path& run_folder) {
    if (!fs::exists(run_folder)) return;
    const auto mark = read_mark(run_folder);
    if (mark && mark->made_folder && !find_foreign(run_folder)) {
      const RunLock lock(run_folder);
      fs::path aside = run_folder;
      aside += fmt::format(".removed-{}", ::getpid());
      fs::rename(run_folder, aside);  // at once: a kill in the middle of the removal leaves no half of a run
      fs::remove_all(aside);
    } else if (!mark) {
      // Killed before it was marked, so that it is empty but for an empty .heed; remove() removes empty folders only.
      std::error_code ignored;
      fs::remove(run_folder / kHeedFolder, ignored);
      fs::remove(run_folder, ignored);
    }
  }

  // Returns whether a run has ended.
  bool poll() {
    bool has_ended = false;
    for (Slot& slot : slots_) {
      if (!slot.child) continue;
      const std::optional<int> code = slot.child->poll();
      if (!code) continue;
      has_ended = true;
      end(slot, *code);
      slot.child.reset();
      slot.lock = {};
    }
    return has_ended;
  }

  void end(const Slot& slot, int code) {
    Task& task = *slot.task;
    const auto result = folder_.result(*task.arm, task.seed);
    const bool is_final = result && result->is_final(task.arm->config);
    work_done_ += is_final ? task.work - slot.work_before : 0;
    if (is_stopping_ && !is_final) {
      task.state = Task::State::waiting;
      return;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - slot.start).count();
    if (!is_final) {
      return fail(task,
                  code > 128 ? fmt::format("killed by signal {}", code - 128)
                             : last_line(folder_.log_file(*task.arm, task.seed)),
                  seconds);
    }
    task.state = Task::State::done;
    const Summary& summary = result->summary;
    std::string what = fmt::format("val {}", summary.val_loss ? loss_text(*summary.val_loss) : "-");
    if (summary.excess) what += fmt::format("  excess {}", loss_text(*summary.excess));
    if (summary.status == RunStatus::diverged) what = fmt::format("diverged after step {}", summary.steps);
    show_end(task, what, seconds);
    note_baseline();
  }

  void fail(Task& task, const std::string& reason, double seconds) {
    task.state = Task::State::failed;
    folder_.note_failure(*task.arm, task.seed, reason);
    show_end(task, "failed: " + reason, seconds);
  }

  void show_end(const Task& task, const std::string& what, double seconds) {
    ++ended_;
    line_.erase();
    print("{:>{}}/{}  {}  seed {}  {}  {}\n", kept_ + ended_, fmt::formatted_size("{}", tasks_.size()), tasks_.size(),
          task.arm->name, task.seed, what, duration_text(seconds));
  }

  // Once the baseline is done, its noise says what can be found.
  void note_baseline() {
    if (detectable_shown_ || sweep_.seeds < 2) return;
    std::vector<double> losses;
    const Arm& baseline = sweep_.arms[sweep_.baseline];
    for (int64_t run = 0; run < sweep_.seeds; ++run) {
      const auto result = folder_.result(baseline, sweep_.seed(baseline, run));
      if (!result || !result->is_complete(baseline.config) || !result->summary.val_loss) return;
      losses.push_back(*result->summary.val_loss);
    }
    if (const Sample sample = describe(losses); sample.sd) show_detectable(*sample.sd, baseline.name);
  }

  // Once a second: a signal is lost on a process that has just been forked.
  void stop_all(int signal) {
    if (is_stopping_ && Clock::now() - signal_sent_ < std::chrono::seconds(1)) return;
    is_stopping_ = true;
    signal_sent_ = Clock::now();
    for (const Slot& slot : slots_) {
      if (slot.child) slot.child->send(signal == SIGINT ? SIGTERM : signal);
    }
  }

  double share_done(const Task& task) const {
    const TrainConfig& train = task.arm->config.train;
    const int64_t steps = train.stop_after > 0 ? train.stop_after : train.steps;
    return static_cast<double>(steps_done(folder_.run_folder(*task.arm, task.seed))) / static_cast<double>(steps);
  }

  void draw() {
    if (!line_.is_due()) return;
    double here = work_done_, done = 0, all = 0;
    std::string current;
    for (const Task& task : tasks_) {
      all += task.work;
      done += task.state == Task::State::done || task.state == Task::State::failed ? task.work : 0;
    }
    for (const Slot& slot : slots_) {
      if (!slot.child) continue;
      const double share = share_done(*slot.task);
      done += share * slot.task->work;
      here += std::max(0.0, share * slot.task->work - slot.work_before);
      if (current.empty()) current = fmt::format("{} seed {}", slot.task->arm->name, slot.task->seed);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    line_.draw({.fraction = done / all,
                .counter = fmt::format("{}/{} runs", kept_ + ended_, tasks_.size()),
                .details = {is_stopping_ ? "stopping" : current},
                .eta = here > 0 ? "ETA " + duration_text(seconds * (all - done) / here) : ""});
  }

  int64_t count(Task::State state) const {
    return std::count_if(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.state == state; });
  }

  void finish() {
    const data::Descriptor lock = folder_.lock_results();
    const SweepResults results = collect_results(sweep_, folder_);
    const int64_t done = results.final_runs();
    if (done > 0) print("\n{}\n", results_table(results, terminal_columns(STDOUT_FILENO)));
    folder_.write("ablation.csv", arms_csv(results));
    folder_.write("runs.csv", runs_csv(results));
    folder_.write("speed.csv", speed_csv(results));
    folder_.write("table.txt", results_table(results, 80));
    folder_.write("ablation.h5", results_hdf5(results));
    print("results       {}/ablation.csv, runs.csv, speed.csv, ablation.h5, table.txt\n", folder_.path().string());
    if (const int signal = StopSignal::received(); signal != 0) {
      print("stopped       by {}: {} of {} runs are done; the same command goes on from here\n",
            stop_signal_name(signal), done, sweep_.num_runs());
      return;
    }
    if (const int64_t elsewhere = count(Task::State::elsewhere); elsewhere > 0) {
      print("elsewhere     {} in other processes; the last process to end writes the full table\n",
            plural(elsewhere, "run"));
    }
    if (done > 0 && sweep_.arms.front().config.train.plot) print("{}\n", plot_at_end(folder_.path()));
    const int64_t failed = count(Task::State::failed);
    require<Error>(failed == 0, "ablate: {} of {} runs failed (logs: {}); the same command tries them again", failed,
                   sweep_.num_runs(), (folder_.path() / "logs").string());
  }

  const Sweep& sweep_;
  SweepFolder folder_;
  Shares shares_;
  std::vector<Slot> slots_;
  std::vector<Task> tasks_;
  ProgressLine line_{STDERR_FILENO, write_progress};
  int64_t kept_ = 0, ended_ = 0;
  double work_done_ = 0;  // by this process
  bool is_stopping_ = false, detectable_shown_ = false;
  Clock::time_point signal_sent_{};
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

int run_ablation(const Sweep& sweep, const AblationOptions& options) { return Ablation(sweep, options).run(); }

}  // namespace heed::train
