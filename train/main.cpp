// The command line. Errors become one line on stderr and an exit code:
//   2 usage or config · 3 data · 4 checkpoint · 5 device or memory · 6 diverged · 7 communication · 1 anything else
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <sstream>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/build_info.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/bench.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/mpi_communicator.hpp"
#include "train/comm/nccl_communicator.hpp"
#include "train/config.hpp"
#include "train/data_command.hpp"
#include "train/eval_command.hpp"
#include "train/generate.hpp"
#include "train/gradcheck_command.hpp"
#include "train/memory_table.hpp"
#include "train/output.hpp"
#include "train/ranked_command.hpp"
#include "train/run.hpp"

namespace {

using namespace heed;

constexpr const char* kVersion = "0.1.0";

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> operations;
  bool resume = false;
  std::string checkpoint;
  train::GenerateOptions generate;
  data::PrepareConfig prepare;
  std::string device, dtype;  // of bench
  train::BenchUpdateOptions bench_update;
};

void print_cuda() {
  const cuda::Status& status = cuda::status();
  if (status.architectures.empty()) {
    train::print("CUDA          off: {}\n", status.problem);
    return;
  }
  train::print("CUDA          code for {}\n", status.architectures);
  for (const cuda::DeviceInfo& device : status.devices) {
    train::print("device        {} ({}, {})\n", device.name, device.architecture,
                 train::human_bytes(device.memory_bytes));
  }
  if (!status.problem.empty()) train::print("device        none: {}\n", status.problem);
}

void print_info() {
  train::print("heed          {}\n", kVersion);
#if defined(__clang__)
  train::print("compiler      clang {}\n", __clang_version__);
#else
  train::print("compiler      g++ {}\n", __VERSION__);
#endif
  train::print("CPU           {} by {}, vectors {}, matrix products by {}\n", cpu::describe_threads(),
               cpu::thread_library(), cpu::instruction_set(), cpu::gemm_library());
  print_cuda();
  const std::string mpi = comm::mpi_library(), nccl = comm::nccl_version();
  train::print("ranks         {}, {}\n", mpi.empty() ? "no MPI in this build" : "by " + mpi,
               nccl.empty() ? "no NCCL in this build" : "NCCL " + nccl);
}

int guarded(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& error) {
    train::write_notice(fmt::format("heed: {}\n", comm::error_text(error)));
    return comm::exit_code(error);
  }
}

// --help and --version.
int print_help(const CLI::App& app, const CLI::ParseError& request) {
  std::ostringstream text;
  const int code = app.exit(request, text, text);
  train::write_output(text.str());
  return code;
}

// Whatever the parent process left: the numbers of stdin, stdout and stderr must be taken, or a file of the run would
// get one and be written into. What was closed can be neither read nor written.
void occupy_standard_streams() {
  while (true) {
    const int number = ::open("/dev/null", O_RDONLY);
    if (number > STDERR_FILENO) ::close(number);
    if (number < 0 || number > STDERR_FILENO) return;
  }
}

void add_config_arguments(CLI::App* command, Arguments& arguments) {
  command->add_option("config", arguments.config, "TOML file")->required();
  command->add_option("overrides", arguments.overrides, "table.key=value …, set after the file is read");
}

using RunCommand = std::function<void(CLI::App*, std::function<int()>)>;

void add_generate(CLI::App& app, Arguments& arguments, const RunCommand& run) {
  CLI::App* command = app.add_subcommand("generate", "write text with a checkpoint");
  train::GenerateOptions& o = arguments.generate;
  command->add_option("checkpoint", o.checkpoint, "a .h5 file of a run")->required();
  command->add_option("--prompt", o.prompt, "what the text begins with");
  command->add_flag("--skip-unknown", o.skip_unknown,
                    "leave out characters of the prompt that the model does not know");
  command->add_option("--tokens", o.num_tokens, "most tokens of a sample")->capture_default_str();
  command->add_option("--num-samples", o.num_samples, "samples")->capture_default_str();
  command->add_option("--seed", o.seed, "of the random numbers")->capture_default_str();
  command->add_option("--temperature", o.sampler.temperature, "0: always the likeliest token")->capture_default_str();
  command->add_option("--top-k", o.sampler.top_k, "only the k likeliest tokens; 0: all")->capture_default_str();
  command->add_option("--top-p", o.sampler.top_p, "only the likeliest tokens that together reach p")
      ->capture_default_str();
  run(command, [&o] {
    train::run_generate(o);
    return 0;
  });
}

void add_data(CLI::App& app, Arguments& arguments, const RunCommand& run) {
  CLI::App* data = app.add_subcommand("data", "make token files from texts, and look into them");
  data->require_subcommand(1);
  data::PrepareConfig& p = arguments.prepare;
  const std::map<std::string, data::TokenizerKind> kinds{
      {"char", data::TokenizerKind::character}, {"byte", data::TokenizerKind::byte}, {"bpe", data::TokenizerKind::bpe}};
  CLI::App* prepare = data->add_subcommand("prepare", "text to tokens, for data.source = \"tokens\"");
  prepare->add_option("text", p.text_path, "UTF-8 text; any bytes for byte and bpe")->required();
  prepare->add_option("output", p.output_path, "HDF5 file, which must not be there yet")->required();
  prepare->add_option("--tokenizer", p.tokenizer, "char, byte or bpe")->transform(CLI::CheckedTransformer(kinds));
  prepare->add_option("--vocab-size", p.vocab_size, "of bpe");
  prepare->add_option("--val-fraction", p.val_fraction, "share for validation; 0: none")->capture_default_str();
  prepare->add_option("--test-fraction", p.test_fraction, "share for the test")->capture_default_str();
  run(prepare, [&p] {
    p.written_by = std::string("heed ") + kVersion;
    train::run_data_prepare(p);
    return 0;
  });
  CLI::App* info = data->add_subcommand("info", "what a token file holds; every token is checked");
  info->add_option("file", p.output_path, "a token file")->required();
  run(info, [&p] {
    train::run_data_info(p.output_path);
    return 0;
  });
}

void add_bench(CLI::App& app, Arguments& arguments, const RunCommand& run) {
  CLI::App* command = app.add_subcommand("bench", "time the operations, or the updates of a config");
  train::BenchUpdateOptions& o = arguments.bench_update;
  command->add_option("what", arguments.operations, "operations to time, all without one; with --config: key=value …");
  CLI::Option* config_option =
      command->add_option("--config", arguments.config, "time the updates of this config instead");
  command->add_option("--device", arguments.device, "of the operations, cpu without it; of a config: train.device")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->excludes(config_option);
  command->add_option("--dtype", arguments.dtype, "of the operations, f32 without it; of a config: train.precision")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->excludes(config_option);
  command->add_option("--warm-up", o.warm_up, "updates before those that are timed")
      ->check(CLI::Range(0, 1'000'000))
      ->needs(config_option)
      ->capture_default_str();
  command->add_option("--updates", o.updates, "updates that are timed; without it, as many as are needed")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(config_option);
  command->add_flag("--json", o.as_json, "print one JSON object instead of a table");
  run(command, [&arguments, &o] {
    if (!arguments.config.empty()) {
      return train::run_on_ranks([&] { return train::load_config(arguments.config, arguments.operations); },
                                 [&](const train::Config& config, comm::Ranks& ranks) {
                                   train::bench_update(config, o, ranks);
                                   return 0;
                                 });
    }
    train::bench_operations(arguments.operations, {.device = arguments.device == "cuda" ? Device::cuda : Device::cpu,
                                                   .dtype = arguments.dtype == "bf16" ? DType::bf16 : DType::f32,
                                                   .as_json = o.as_json});
    return 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  // A write past a size limit then fails with an error, which names the file, and the old checkpoint stays.
  std::signal(SIGXFSZ, SIG_IGN);
  // A pipe that is closed, as by `heed generate … | head`, ends the process at once and without a word, whatever the
  // parent process set. Only training goes on to its next update and saves (train/reporter.hpp).
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("heed trains small causal language models from a config file.", "heed");
  app.set_version_flag("--version", std::string("heed ") + kVersion);
  app.require_subcommand(1);
  app.footer("./heed test builds and runs the tests. Every command explains itself: heed train --help");
  Arguments arguments;
  int code = 0;
  const auto run = [&](CLI::App* command, std::function<int()> action) {
    command->callback([&code, action] { code = guarded(action); });
  };

  CLI::App* train = app.add_subcommand("train", "train the model that a config file describes");
  add_config_arguments(train, arguments);
  train->add_flag("--resume", arguments.resume, "go on from the newest checkpoint of the run folder");
  run(train, [&] {
    std::signal(SIGPIPE, SIG_IGN);
    return train::run_on_ranks([&] { return train::load_config(arguments.config, arguments.overrides); },
                               [&](const train::Config& config, comm::Ranks& ranks) {
                                 train::run_training(config, {.resume = arguments.resume}, ranks);
                                 return 0;
                               });
  });

  add_generate(app, arguments, run);
  add_data(app, arguments, run);

  CLI::App* eval = app.add_subcommand("eval", "loss of a checkpoint on the whole of its splits");
  eval->add_option("checkpoint", arguments.checkpoint, "a .h5 file of a run")->required();
  eval->add_option("overrides", arguments.overrides, "table.key=value …, such as data.path");
  run(eval, [&] {
    train::run_eval(arguments.checkpoint, arguments.overrides);
    return 0;
  });

  CLI::App* config = app.add_subcommand("config", "print a config as it is understood, with the origin of each value");
  config->add_option("config", arguments.config, "TOML file; without one, every key is explained");
  config->add_option("overrides", arguments.overrides, "table.key=value …");
  run(config, [&] {
    train::print("{}", arguments.config.empty()
                           ? train::config_reference()
                           : train::describe_config(train::load_config(arguments.config, arguments.overrides)));
    return 0;
  });

  CLI::App* gradcheck = app.add_subcommand("gradcheck", "check gradients against differences in f64");
  gradcheck->add_option("operation", arguments.operations, "operations to check, or gpt; all without one");
  run(gradcheck, [&] { return train::run_gradcheck(arguments.operations) ? 0 : 1; });

  add_bench(app, arguments, run);

  CLI::App* info = app.add_subcommand("info", "print what this build holds and where it runs");
  run(info, [] {
    print_info();
    return 0;
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return guarded([&] { return print_help(app, error); });
    train::write_notice(fmt::format("heed: {} (heed --help)\n", error.what()));
    return 2;
  }
  return code;
}
