#include <sys/resource.h>

#include <algorithm>

#include "autograd/core/buffer.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/bench.hpp"
#include "train/bench_row.hpp"
#include "train/bench_timing.hpp"
#include "train/json.hpp"
#include "train/memory_table.hpp"
#include "train/output.hpp"
#include "train/trainer.hpp"
#include "train/update_profile.hpp"

namespace heed::train {
namespace {

struct UpdateBench {
  std::vector<double> seconds;  // of each update, in rising order
  int64_t tokens = 0;           // per update
  MemoryReport memory;
  int64_t resident_bytes = 0;  // peak of the process
  std::vector<BenchRow> rows;
  Ceilings ceilings;
  double weight_flops = 0, attention_flops = 0;  // per token

  double rate() const { return static_cast<double>(tokens) / median(seconds); }
  double mfu() const { return rate() * (weight_flops + attention_flops) / ceilings.flops_per_s; }
};

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::vector<double> time_updates(Trainer& trainer, const BenchUpdateOptions& options) {
  for (int64_t i = 0; i < options.warm_up; ++i) trainer.update();
  const auto timed = [&] { return seconds_of([&] { trainer.update(); }); };
  if (options.updates == 0) return repeat(timed);
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.updates; ++i) seconds.push_back(timed());
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

std::vector<BenchRow> profile_updates(Trainer& trainer) {
  constexpr int kUpdates = 5;
  constexpr double kEnough = 2;  // seconds
  const nn::ParameterStore& store = trainer.model().parameters();
  const auto bytes = static_cast<double>(store.parameters() * size_bytes(compute_dtype(store.dtype())));
  const auto moments = static_cast<double>(trainer.optimizer().state().size() / store.groups().size());
  // The optimizer reads the gradients, and reads and writes weights and moments.
  UpdateProfile profile(
      {{"zero gradients", bytes}, {"gradient norm", bytes}, {"optimizer", bytes * (1 + 2 * (1 + moments))}});
  double spent = 0;
  for (int i = 0; i < kUpdates && spent < kEnough; ++i) {
    spent += seconds_of([&] { profile.add([&] { trainer.update(); }); });
  }
  return profile.rows();
}

// What is measured first must not see the memory that is needed for measuring the rest.
UpdateBench measure(Trainer& trainer, const BenchUpdateOptions& options) {
  const Config& config = trainer.config();
  const nn::GptConfig& m = config.model;
  UpdateBench bench;
  bench.seconds = time_updates(trainer, options);
  bench.memory = memory_report(trainer.device());
  bench.resident_bytes = peak_resident_bytes();
  bench.tokens = config.train.batch_size * m.seq_len;
  bench.rows = profile_updates(trainer);
  bench.ceilings = {copy_bandwidth(),
                    product_rate(config.train.precision, m, config.train.rows_per_micro_batch() * m.seq_len)};
  bench.weight_flops = 6.0 * static_cast<double>(trainer.model().gemm_weights());
  bench.attention_flops = 6.0 * static_cast<double>(m.num_layers * m.seq_len * m.d_model);
  return bench;
}

double total_seconds(const std::vector<BenchRow>& rows) {
  double sum = 0;
  for (const BenchRow& row : rows) sum += row.seconds;
  return sum;
}

void print_text(const UpdateBench& b, const Trainer& trainer) {
  const DType dtype = trainer.config().train.precision;
  print("update        {:.2f} ms ({:.2f} to {:.2f}), {:.0f} tokens/s ({} tokens, {} parameters, {})\n",
        median(b.seconds) * 1e3, b.seconds.front() * 1e3, b.seconds.back() * 1e3, b.rate(), b.tokens,
        trainer.model().parameters().parameters(), name(dtype));
  print("FLOPs/token   {:.4g} in weights + {:.4g} in attention\n", b.weight_flops, b.attention_flops);
  print("MFU           {:.1f} %\n", 100 * b.mfu());
  print("{}\nresident      {:>11}  peak of the process\n", measured_memory(b.memory), human_bytes(b.resident_bytes));
  print("ceilings      {}\n",
        ceilings_text(b.ceilings, fmt::format("best {} product at this model's shapes", name(dtype))));
  const double total = total_seconds(b.rows);
  print("one update by operation, {:.2f} ms (calls, ms, share of the update; rates, % of the ceilings):\n",
        total * 1e3);
  for (const BenchRow& row : b.rows) {
    print("  {:<58} {:>3} x {:>9.3f} ms {:>5.1f} % {}\n", row.label(), row.calls, row.seconds * 1e3,
          100 * row.seconds / total, row.rates(b.ceilings));
  }
}

std::string memory_json(const UpdateBench& b) {
  std::vector<std::pair<std::string, std::string>> members{{"resident", json::number(b.resident_bytes)},
                                                           {"total", json::number(b.memory.total.peak_bytes)}};
  for (int i = 0; i < kMemoryCategories; ++i) {
    members.emplace_back(name(static_cast<MemoryCategory>(i)),
                         json::number(b.memory.category[static_cast<size_t>(i)].peak_bytes));
  }
  return json::object(members);
}

void print_json(const UpdateBench& b, const Trainer& trainer) {
  std::vector<std::string> seconds, rows;
  for (const double s : b.seconds) seconds.push_back(json::number(s));
  for (const BenchRow& row : b.rows) rows.push_back(row.json(b.ceilings));
  print("{}\n", json::object({{"seconds", json::list(seconds)},
                              {"tokens", json::number(b.tokens)},
                              {"tokens_per_s", json::number(b.rate())},
                              {"parameters", json::number(trainer.model().parameters().parameters())},
                              {"threads", json::number(int64_t{cpu::max_threads()})},
                              {"vocab_size", json::number(trainer.config().model.vocab_size)},
                              {"mfu", json::number(b.mfu())},
                              {"peak_bytes", memory_json(b)},
                              {"ceilings", ceilings_json(b.ceilings)},
                              {"operations", json::list(rows)},
                              {"config", json::text(config_to_toml(trainer.config()))}}));
}

}  // namespace

void bench_update(const Config& config, const BenchUpdateOptions& options) {
  Trainer trainer(config);
  const UpdateBench bench = measure(trainer, options);
  options.as_json ? print_json(bench, trainer) : print_text(bench, trainer);
}

}  // namespace heed::train
