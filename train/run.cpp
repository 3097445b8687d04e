#include "train/run.hpp"

#include <algorithm>
#include <chrono>

#include "train/memory_table.hpp"
#include "train/reporter.hpp"
#include "train/trainer.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Seconds spent in updates and the tokens they took.
struct Throughput {
  double seconds = 0;
  int64_t tokens = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

void report_end(Reporter& reporter, const Summary& s, const std::string& run_dir) {
  const auto number = [](std::optional<double> v) { return v ? fmt::format("{:.4f}", *v) : std::string("-"); };
  reporter.line(fmt::format("done          {} updates in {:.1f} s, {:.0f} tokens/s; validation loss {}, test loss {}",
                            s.steps, s.seconds, s.tokens_per_s, number(s.val_loss), number(s.test_loss)));
  if (s.excess) {
    reporter.line(
        fmt::format("excess        {} nats above what the source itself loses on the same targets (its "
                    "entropy is {})",
                    number(s.excess), number(s.entropy)));
  }
  reporter.line(fmt::format("files         {0}/metrics.csv, {0}/summary.json, {0}/config.toml", run_dir));
}

}  // namespace

Summary run_training(const Config& config) {
  const auto begin = Clock::now();
  Trainer trainer(config);
  RunFolder folder(config);
  Reporter reporter(trainer);
  if (!folder.moved_to().empty()) reporter.line("an earlier run was moved to " + folder.moved_to());
  reporter.start(folder.path());

  Summary summary{.steps = config.train.steps, .parameters = trainer.model().parameters().parameters()};
  Throughput throughput;
  std::optional<Evaluation> validation;
  while (trainer.step() < config.train.steps) {
    const auto update_begin = Clock::now();
    const Update update = trainer.update();
    throughput.seconds += seconds_since(update_begin);
    throughput.tokens += update.targets;
    if (update.step == 1) {
      reporter.check_first_loss(update.loss);
      const MemoryReport measured = memory_report(Device::cpu);
      reporter.line(memory_table(estimate_memory(config, trainer.model()), &measured));
    }
    const bool last = update.step == config.train.steps;
    const bool evaluates = last || update.step % config.train.eval_interval == 0;
    reporter.update(update, throughput.rate());
    if (evaluates) {
      validation = trainer.evaluate(data::Split::validation, last ? 0 : config.train.eval_batches);
      reporter.evaluation(update.step, *validation);
      summary.best_val_loss = std::min(summary.best_val_loss.value_or(validation->loss), validation->loss);
    }
    folder.write(MetricsRow{.step = update.step,
                            .tokens = throughput.tokens,
                            .train_loss = update.loss,
                            .val_loss = evaluates ? std::optional(validation->loss) : std::nullopt,
                            .learning_rate = update.learning_rate,
                            .grad_norm = update.grad_norm,
                            .tokens_per_s = throughput.rate(),
                            .seconds = seconds_since(begin)});
    if (evaluates || update.step % config.train.log_interval == 0) folder.flush();
    summary.train_loss = update.loss;
  }
  folder.flush();
  if (validation) {
    summary.val_loss = validation->loss;
    summary.excess = validation->excess;
  }
  summary.test_loss = trainer.evaluate(data::Split::test, 0).loss;
  const auto entropies = trainer.source().entropies(config.model.seq_len);
  if (!entropies.empty()) summary.entropy = entropies.back().nats;
  summary.tokens_per_s = throughput.rate();
  summary.seconds = seconds_since(begin);
  summary.peak_memory_bytes = memory_report(Device::cpu).total.peak_bytes;
  folder.write(summary);
  report_end(reporter, summary, folder.path());
  return summary;
}

}  // namespace heed::train
