#include <sys/resource.h>

#include <algorithm>

#include "autograd/core/buffer.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/bench/bench.hpp"
#include "train/bench/bench_timing.hpp"
#include "train/bench/roofline.hpp"
#include "train/bench/step_profile.hpp"
#include "train/output/json.hpp"
#include "train/output/output.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

struct StepBench {
  Config config;
  Device device = Device::cpu;
  std::vector<double> seconds;        // of each step, ascending
  std::vector<double> eager_seconds;  // the same without a captured graph; may be empty
  double waited_seconds = 0;          // waiting for other ranks, per step
  int64_t tokens = 0;                 // per step
  int64_t parameters = 0;
  MemoryReport memory;
  int64_t resident_bytes = 0;  // peak resident set size of the process
  std::vector<BenchRow> rows;
  Ceilings ceilings;
  nn::FlopsPerToken flops;

  double rate_of(const std::vector<double>& steps) const { return static_cast<double>(tokens) / median(steps); }
  double mfu() const {
    const double peak = ceilings.flops_per_s * static_cast<double>(config.train.ranks);
    return rate_of(seconds) * flops.all() / peak;
  }
};

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::vector<double> time_steps(Trainer& trainer, const BenchStepOptions& options) {
  warm_up(trainer, options.warm_up);
  const auto timed = [&] { return seconds_of([&] { trainer.train_step(); }); };
  const bool is_alone = trainer.ranks().size() == 1;
  if (options.steps == 0 && is_alone) return repeat(timed);
  constexpr int64_t kStepsOfRanks = 20;  // repeat() would choose different numbers on different ranks
  const int64_t steps = options.steps == 0 ? kStepsOfRanks : options.steps;
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) seconds.push_back(timed());
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

std::vector<BenchRow> profile_steps(Trainer& trainer) {
  const int steps = trainer.device() == Device::cuda ? 20 : 5;  // an event has a resolution of half a microsecond
  constexpr double kEnough = 2;                                 // seconds
  const nn::ParameterStore& store = trainer.model().parameters();
  const auto bytes = static_cast<double>(store.parameters() * size_bytes(accumulation_dtype(store.dtype())));
  double state = 0;
  for (const auto& [name, tensor] : trainer.optimizer().state()) {
    state += static_cast<double>(tensor.numel() * static_cast<int64_t>(size_bytes(tensor.dtype())));
  }
  // The optimizer reads the gradients, and reads and writes weights and state.
  StepProfile profile({{"gradient norm", bytes}, {"optimizer", 3 * bytes + 2 * state}}, trainer.device());
  double spent = 0;
  const bool is_alone = trainer.ranks().size() == 1;
  for (int i = 0; i < steps && (spent < kEnough || !is_alone); ++i) {
    spent += seconds_of([&] { profile.add([&] { trainer.train_step(); }); });
  }
  trainer.reset_graph();  // frees memory for the measurements of the ceilings
  return profile.rows();
}

// The order matters: peak memory must be read before the later measurements allocate more.
StepBench measure(const Config& given, const BenchStepOptions& options, comm::ProcessGroup& ranks) {
  Trainer trainer(config_of_bench(given), ranks);
  const Config& config = trainer.config();
  const nn::GptConfig& m = config.model;
  StepBench bench;
  bench.config = config;
  bench.config.train.steps = given.train.steps;
  bench.device = trainer.device();
  bench.seconds = time_steps(trainer, options);
  bench.waited_seconds = trainer.communicator().waited_seconds() / static_cast<double>(trainer.step());
  bench.memory = memory_report(bench.device);
  bench.resident_bytes = peak_resident_bytes();
  bench.tokens = config.train.batch_size * m.seq_len;
  bench.parameters = trainer.model().parameters().parameters();
  bench.rows = profile_steps(trainer);
  const int64_t tokens = config.train.rows_per_micro_batch() * m.seq_len;
  bench.ceilings = {bench.device, copy_bandwidth(bench.device),
                    gemm_rate(config.train.precision, bench.device, m, tokens)};
  bench.flops = nn::flops_per_token(m);
  return bench;
}

bool uses_graph(const StepBench& b) {
  return b.device == Device::cuda && b.config.train.cuda_graph && !b.config.train.detect_anomaly;
}

std::vector<double> time_eager_steps(const Config& given, const BenchStepOptions& options, comm::ProcessGroup& ranks) {
  Config config = config_of_bench(given);
  config.train.cuda_graph = false;
  Trainer trainer(config, ranks);
  return time_steps(trainer, options);
}

double total_seconds(const std::vector<BenchRow>& rows) {
  double sum = 0;
  for (const BenchRow& row : rows) sum += row.seconds;
  return sum;
}

std::string spread(const std::vector<double>& seconds) {
  return fmt::format("{:.2f} ms ({:.2f} to {:.2f})", median(seconds) * 1e3, seconds.front() * 1e3,
                     seconds.back() * 1e3);
}

void print_text(const StepBench& b) {
  const DType dtype = b.config.train.precision;
  print("step          {}, {:.0f} tokens/s ({} tokens, {} parameters, {}{})\n", spread(b.seconds), b.rate_of(b.seconds),
        b.tokens, b.parameters, name(dtype), uses_graph(b) ? ", captured as a CUDA graph" : "");
  if (!b.eager_seconds.empty()) {
    print("eager         {}, {:.0f} tokens/s (train.cuda_graph=false)\n", spread(b.eager_seconds),
          b.rate_of(b.eager_seconds));
  }
  if (b.config.train.ranks > 1) {
    const std::string waited =
        b.device == Device::cpu ? fmt::format(", {:.2f} ms of a step waiting for communication", b.waited_seconds * 1e3)
                                : std::string();
    print("ranks         {}{}\n", b.config.train.ranks, waited);
  }
  print("FLOPs/token   {:.4g} in weights + {:.4g} in attention\n", b.flops.weights, b.flops.attention);
  print("MFU           {:.1f} %\n", 100 * b.mfu());
  print("{}\nresident      {:>11}  peak of the process\n", measured_memory(b.memory), human_bytes(b.resident_bytes));
  print("ceilings      {}\n",
        ceilings_text(b.ceilings, fmt::format("best {} GEMM at this model's shapes", name(dtype))));
  const double total = total_seconds(b.rows);
  print("one step by operation, {:.2f} ms (calls, ms, share of the step; rates, % of the ceilings):\n", total * 1e3);
  for (const BenchRow& row : b.rows) {
    print("  {:<58} {:>3} x {:>9.3f} ms {:>5.1f} % {}\n", row.label(), row.calls, row.seconds * 1e3,
          100 * row.seconds / total, row.rates(b.ceilings));
  }
}

std::string memory_json(const StepBench& b) {
  std::vector<std::pair<std::string, std::string>> members{{"resident", json::number(b.resident_bytes)},
                                                           {"total", json::number(b.memory.total.peak_bytes)}};
  for (int i = 0; i < kMemoryCategories; ++i) {
    members.emplace_back(name(static_cast<MemoryCategory>(i)),
                         json::number(b.memory.category[static_cast<size_t>(i)].peak_bytes));
  }
  return json::object(members);
}

std::string numbers_json(const std::vector<double>& values) {
  std::vector<std::string> items;
  for (const double value : values) items.push_back(json::number(value));
  return json::list(items);
}

void print_json(const StepBench& b) {
  std::vector<std::string> rows;
  for (const BenchRow& row : b.rows) rows.push_back(row.json(b.ceilings));
  print("{}\n", json::object({{"seconds", numbers_json(b.seconds)},
                              {"eager_seconds", numbers_json(b.eager_seconds)},
                              {"ranks", json::number(b.config.train.ranks)},
                              {"waited_seconds", json::number(b.waited_seconds)},
                              {"tokens", json::number(b.tokens)},
                              {"tokens_per_s", json::number(b.rate_of(b.seconds))},
                              {"parameters", json::number(b.parameters)},
                              {"device", json::text(device_text(b.device))},
                              {"threads", json::number(int64_t{cpu::max_threads()})},
                              {"vocab_size", json::number(b.config.model.vocab_size)},
                              {"mfu", json::number(b.mfu())},
                              {"peak_bytes", memory_json(b)},
                              {"ceilings", ceilings_json(b.ceilings)},
                              {"operations", json::list(rows)},
                              {"config", json::text(config_to_toml(b.config))}}));
}

}  // namespace

void warm_up(Trainer& trainer, int64_t steps) {
  constexpr int64_t kUntilReplay = 2;  // the first step launches each kernel, the second captures the graph
  const bool until_warm = trainer.device() == Device::cuda && steps > 0;
  for (int64_t i = 0; i < (until_warm ? std::max(steps, kUntilReplay) : steps); ++i) trainer.train_step();
  for (double spent = 0; until_warm && spent < kWarmUpSeconds;) {
    const double seconds = seconds_of([&] { trainer.train_step(); });
    spent += trainer.ranks().gather(seconds)[0];
  }
}

Config config_of_bench(const Config& given) {
  Config config = given;
  config.train.init_from.clear();
  config.train.steps = 1'000'000'000;  // the largest value that a config may have
  return config;
}

void bench_step(const Config& config, const BenchStepOptions& options, comm::ProcessGroup& ranks) {
  StepBench bench = measure(config, options, ranks);
  if (uses_graph(bench)) bench.eager_seconds = time_eager_steps(config, options, ranks);
  if (!ranks.is_root()) return;
  options.as_json ? print_json(bench) : print_text(bench);
}

}  // namespace heed::train
