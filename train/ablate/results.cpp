#include "train/ablate/results.hpp"

#include <algorithm>
#include <limits>

#include "autograd/core/check.hpp"
#include "nn/kv_cache.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/checkpoint/hdf5_image.hpp"
#include "train/trainer/factory.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

const RunResult* complete_run(const ArmResult& arm, size_t run) {
  const std::optional<RunResult>& result = arm.runs[run];
  return result && result->is_complete(arm.arm->config) ? &*result : nullptr;
}

// The sample of value(run) over the complete runs that have one.
template <class Value>
Sample sample_of(const ArmResult& arm, Value value) {
  std::vector<double> values;
  for (size_t run = 0; run < arm.runs.size(); ++run) {
    const RunResult* const result = complete_run(arm, run);
    const std::optional<double> one = result ? value(*result) : std::nullopt;
    if (one) values.push_back(*one);
  }
  return describe(values);
}

void count_runs(ArmResult& arm) {
  for (size_t run = 0; run < arm.runs.size(); ++run) {
    if (!arm.runs[run]) continue;
    const RunStatus status = arm.runs[run]->summary.status;
    arm.complete += complete_run(arm, run) != nullptr ? 1 : 0;
    arm.diverged += status == RunStatus::diverged ? 1 : 0;
    arm.failed += status == RunStatus::failed ? 1 : 0;
  }
}

void describe_runs(ArmResult& arm) {
  using Number = std::optional<double>;
  const auto some = [](auto number) { return Number(static_cast<double>(number)); };
  count_runs(arm);
  arm.val_loss = sample_of(arm, [](const RunResult& run) { return run.summary.val_loss; });
  arm.excess = sample_of(arm, [](const RunResult& run) { return run.summary.excess; });
  arm.grad_norm_spikes = sample_of(arm, [&](const RunResult& run) { return some(run.grad_norm_spikes); });
  arm.tokens_per_s = sample_of(arm, [&](const RunResult& run) { return some(run.summary.tokens_per_s); });
  arm.seconds = sample_of(arm, [&](const RunResult& run) { return some(run.summary.seconds); });
  arm.peak_memory = sample_of(arm, [&](const RunResult& run) { return some(run.summary.peak_memory_bytes); });
  const RunResult* first = nullptr;
  for (size_t run = 0; run < arm.runs.size() && first == nullptr; ++run) first = complete_run(arm, run);
  const size_t count = first == nullptr ? 0 : first->passed.size();
  for (size_t i = 0; i < count; ++i) {
    arm.passed.emplace_back(first->passed[i].entropy, sample_of(arm, [&](const RunResult& run) {
                              return i < run.passed.size() && run.passed[i].step ? some(*run.passed[i].step) : Number();
                            }));
  }
}

void compare(ArmResult& arm, const ArmResult& baseline, const Sweep& sweep, int64_t comparisons) {
  if (arm.diverged > 0 || baseline.diverged > 0) return;  // the others are not a fair sample
  std::vector<double> differences;
  for (size_t run = 0; run < arm.runs.size(); ++run) {
    const RunResult *here = complete_run(arm, run), *there = complete_run(baseline, run);
    if (!here || !there || !here->summary.val_loss || !there->summary.val_loss) continue;
    differences.push_back(*here->summary.val_loss - *there->summary.val_loss);
  }
  arm.test = paired_t_test(differences, sweep.significance, comparisons);
  if (!arm.test) return;
  const Sample& sample = arm.test->difference;
  arm.detectable = detectable_difference(*sample.sd, sweep.seeds, sweep.significance, comparisons);
}

Tensor filled(const Shape& shape) { return full(shape, DType::f64, std::numeric_limits<double>::quiet_NaN()); }

}  // namespace

int64_t ArmResult::head_size() const { return arm->config.model.d_model / arm->config.model.num_heads; }

int64_t ArmResult::kv_cache_bytes() const { return nn::kv_cache_bytes(arm->config.model, arm->config.train.precision); }

int64_t ArmResult::activation_bytes() const {
  return estimate_memory(arm->config, choose_device(arm->config)).activations;
}

std::optional<int64_t> ArmResult::parameters() const {
  for (const auto& run : runs) {
    if (run && run->summary.parameters > 0) return run->summary.parameters;
  }
  return std::nullopt;
}

std::string ArmResult::verdict() const {
  if (!test) return "no test";
  if (!test->is_significant) return "within noise";
  return test->difference.mean < 0 ? "lower" : "higher";
}

int64_t SweepResults::final_runs() const {
  int64_t count = 0;
  for (const ArmResult& arm : arms) {
    for (const auto& run : arm.runs) count += run && run->is_final(arm.arm->config) ? 1 : 0;
  }
  return count;
}

SweepResults collect_results(const Sweep& sweep, const SweepFolder& folder) {
  SweepResults results{.sweep = &sweep, .arms = {}};
  for (const Arm& arm : sweep.arms) {
    ArmResult& result = results.arms.emplace_back();
    result.arm = &arm;
    for (int64_t run = 0; run < sweep.seeds; ++run) {
      result.runs.push_back(folder.result(arm, sweep.seed(arm, run)));
    }
    describe_runs(result);
  }
  const ArmResult& baseline = results.arms[sweep.baseline];
  for (ArmResult& arm : results.arms) {
    if (&arm != &baseline) compare(arm, baseline, sweep, results.comparisons());
  }
  return results;
}

std::string results_hdf5(const SweepResults& results) {
  const auto arms = static_cast<int64_t>(results.arms.size()), seeds = results.sweep->seeds;
  int64_t steps = 1;
  for (const ArmResult& arm : results.arms) {
    for (const auto& run : arm.runs) steps = std::max(steps, run ? static_cast<int64_t>(run->curve.size()) : 0);
  }
  Tensor val_loss = filled({arms, seeds}), excess = filled({arms, seeds});
  Tensor train_loss = filled({arms, seeds, steps}), grad_norm = filled({arms, seeds, steps});
  for (int64_t i = 0; i < arms * seeds; ++i) {
    const auto& run = results.arms[static_cast<size_t>(i / seeds)].runs[static_cast<size_t>(i % seeds)];
    if (!run) continue;
    if (run->summary.val_loss) val_loss.data<double>()[i] = *run->summary.val_loss;
    if (run->summary.excess) excess.data<double>()[i] = *run->summary.excess;
    for (size_t row = 0; row < run->curve.size(); ++row) {
      train_loss.data<double>()[i * steps + static_cast<int64_t>(row)] = run->curve[row].train_loss;
      grad_norm.data<double>()[i * steps + static_cast<int64_t>(row)] = run->curve[row].grad_norm;
    }
  }
  CheckpointContent content;
  content.tensors = {{"val_loss", val_loss}, {"excess", excess}, {"train_loss", train_loss}, {"grad_norm", grad_norm}};
  std::string names, all_seeds;
  for (const ArmResult& arm : results.arms) names += arm.arm->name + "\n";
  for (int64_t run = 0; run < seeds; ++run) {
    all_seeds += fmt::format("{}\n", results.sweep->seed(results.sweep->arms.front(), run));
  }
  content.texts = {{"arms", names}, {"seeds", all_seeds}, {"ablation.csv", arms_csv(results)}};
  return content_to_image(content);
}

}  // namespace heed::train
