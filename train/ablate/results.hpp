// The results of a sweep: its runs by arm, the statistics of each arm, and the files made of them.
//
// The same runs give the same bytes, however often the sweep was interrupted; what depends on the machine (speed,
// memory that was measured) is in speed.csv and table.txt alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/ablate/run_result.hpp"
#include "train/ablate/statistics.hpp"
#include "train/ablate/sweep.hpp"
#include "train/ablate/sweep_folder.hpp"

namespace heed::train {

struct ArmResult {
  const Arm* arm = nullptr;
  std::vector<std::optional<RunResult>> runs;  // one for each seed; nullopt: not started
  int64_t complete = 0, diverged = 0, failed = 0;
  Sample val_loss, excess, grad_norm_spikes;  // of the complete runs
  // Against the baseline, over the seeds whose runs are both complete; none if a run of either diverged.
  std::optional<PairedTest> test;
  double detectable = 0;  // detectable_difference() with the noise of the test, 0 without one
  // Steps at which an entropy was passed, over the complete runs that did; in the order of RunResult::passed.
  std::vector<std::pair<data::ContextEntropy, Sample>> passed;
  Sample tokens_per_s, seconds, peak_memory;  // of the complete runs

  // From the config.
  int64_t head_size() const;
  int64_t kv_cache_bytes() const;    // keys and values of one full sequence, in the dtype of the run
  int64_t activation_bytes() const;  // estimate_memory(), of one micro-batch
  std::optional<int64_t> parameters() const;
  // "lower", "higher" or "within noise"; "baseline", or "no test" with fewer than two pairs.
  std::string verdict() const;
};

struct SweepResults {
  const Sweep* sweep = nullptr;
  std::vector<ArmResult> arms;

  int64_t final_runs() const;  // RunResult::is_final()
  int64_t comparisons() const { return std::max<int64_t>(1, static_cast<int64_t>(arms.size()) - 1); }
};

// Reads the run folders.
SweepResults collect_results(const Sweep& sweep, const SweepFolder& folder);

std::string arms_csv(const SweepResults& results);   // ablation.csv: one row for each arm
std::string runs_csv(const SweepResults& results);   // one row for each run
std::string speed_csv(const SweepResults& results);  // one row for each run

// Tables for a terminal of so many columns, and what the statistics in them mean.
std::string results_table(const SweepResults& results, int64_t columns);

// An HDF5 file: val_loss and excess (arms, seeds), train_loss and grad_norm (arms, seeds, steps), NaN for a missing
// value; the names of the arms, the seeds and ablation.csv as texts.
std::string results_hdf5(const SweepResults& results);

}  // namespace heed::train
