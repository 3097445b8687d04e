// The command line. Errors become one line on stderr and an exit code:
//   2 usage or config · 3 data · 4 checkpoint · 5 device or memory, no matplotlib · 6 diverged · 7 communication · 1
//   anything else
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <sstream>

#include "autograd/core/check.hpp"
#include "train/ablate/ablation.hpp"
#include "train/bench/bench.hpp"
#include "train/commands/command_options.hpp"
#include "train/commands/command_runner.hpp"
#include "train/commands/commands.hpp"
#include "train/commands/generate.hpp"
#include "train/commands/inspect_command.hpp"
#include "train/commands/run_command.hpp"
#include "train/config/config.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/plot/plot.hpp"
#include "train/run/run.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/version.hpp"
#include "train/trainer/model_summary.hpp"

namespace {

using namespace heed;

constexpr const char* kOverridesHelp = "table.key=value …, set after the file is read.";

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> operations;
  bool resume = false, no_plot = false, as_markdown = false;
  int stop_signal = 0;  // the signal that stopped a training run of one process
  train::GenerateOptions generate;
  train::EvalOptions eval;
  Device device = Device::cpu;  // device and dtype of bench
  DType dtype = DType::f32;
  train::BenchStepOptions bench_step;
  train::AblationOptions ablation;
  train::InspectOptions inspect;
  train::PlotOptions plot;
  train::ReportOptions report;
};

// A shell ends a loop at Ctrl-C only if the command in it was killed by the signal, not if it returned 130. For signals
// of batch systems the process exits normally: SIGXCPU would leave a core file.
int end_by_signal(int signal, int code) {
  if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return code;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  return code;
}

// For --help and --version, which CLI11 reports as errors.
int print_help(const CLI::App& app, const CLI::ParseError& request) {
  std::ostringstream text;
  const int code = app.exit(request, text, text);
  train::write_output(text.str());
  return code;
}

// The parent process may have closed stdin, stdout or stderr. Their descriptors must be occupied, or a file of the run
// would get one of them and receive the output. A closed stream becomes /dev/null, read-only, so that it has no input
// and writing to it fails.
void occupy_standard_streams() {
  while (true) {
    const int number = ::open("/dev/null", O_RDONLY);
    if (number > STDERR_FILENO) ::close(number);
    if (number < 0 || number > STDERR_FILENO) return;
  }
}

using train::Runner, train::IntegerRange, train::NumberRange, train::add_choice, train::add_integer, train::add_number,
    train::add_path, train::add_values;

constexpr IntegerRange kCount{1, 1'000'000'000}, kCountOrNone{0, 1'000'000'000}, kSeed{0, 4'294'967'295};

void add_train(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a config file describes.");
  add_path(command, "config", arguments.config, "A TOML file; with --resume also the folder of the run.")->required();
  command->add_option("overrides", arguments.overrides, kOverridesHelp);
  command->add_flag("--resume", arguments.resume, "Continue from the newest checkpoint of the run.");
  // For heed ablate, which draws all runs together: a config without train.plot would be another config. Not in --help.
  command->add_flag("--no-plot", arguments.no_plot)->group("");
  run.in_each(command, [&] {
    std::signal(SIGPIPE, SIG_IGN);
    return train::run_on_ranks(
        [&] { return train::load_train_config(arguments.config, arguments.overrides, arguments.resume); },
        [&](const train::Config& config, comm::ProcessGroup& ranks) {
          train::RunOptions options{.resume = arguments.resume, .read_pretrained = train::read_pretrained};
          if (config.train.plot && !arguments.no_plot) {
            options.plot = train::plot_at_end;
            if (config.train.tensorboard) options.png = train::png_at_end;
          }
          const int signal = train::run_training(config, options, ranks).stop_signal;
          if (ranks.size() == 1) arguments.stop_signal = signal;
          return signal == 0 ? 0 : 128 + signal;
        });
  });
}

void add_ablate(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command =
      app.add_subcommand("ablate", "Train several settings of a config with several seeds each, and compare them.");
  add_path(command, "sweep", arguments.config,
           "A TOML file that names a base config, and a [grid] of values or [[arm]] tables.")
      ->required();
  command->add_option("overrides", arguments.overrides,
                      "run_dir=FOLDER, seeds=NUMBER, and table.key=value … for all arms.");
  add_integer(command, "--jobs", arguments.ablation.jobs, {0, 4096},
              "Runs side by side; 0: one for each processor or GPU.");
  run.alone(command, "ablate", [&] {
    const train::Sweep sweep = train::load_sweep(arguments.config, arguments.overrides);
    arguments.stop_signal = train::run_ablation(sweep, arguments.ablation);
    return arguments.stop_signal == 0 ? 0 : 128 + arguments.stop_signal;
  });
}

void add_plot(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command = app.add_subcommand("plot", "Draw the curves of runs, or of a sweep by arm.");
  command
      ->add_option("run", arguments.plot.folders,
                   "Run folders, also of runs that still train; folders of sweeps; RUN@STEP: up to that step.")
      ->required();
  add_path(command, "--output", arguments.plot.output,
           "The picture, .svg or .png; default: plot.svg, for one whole run in its folder.");
  run.alone(command, "plot", [&arguments] {
    train::run_plot(arguments.plot);
    return 0;
  });
}

void add_report(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command = app.add_subcommand("report", "Write a run or a sweep as one HTML page, to keep or to send.");
  add_path(command, "folder", arguments.report.folder,
           "The folder of a run, also of one that still trains, or a sweep.")
      ->required();
  add_path(command, "--output", arguments.report.output, "The page; default: report.html in the folder.");
  run.alone(command, "report", [&arguments] {
    train::run_report(arguments.report);
    return 0;
  });
}

void add_prompts(CLI::App* command, train::GenerateOptions& o) {
  CLI::Option* prompt = add_values(
      command, "--prompt", [&o](const std::string& text) { o.prompts.push_back(text); }, "TEXT",
      "The prompt to continue; several of them are continued as one batch.");
  CLI::Option* file =
      add_path(command, "--prompt-file", o.prompt_file, "Read the prompt from this file, byte for byte; -: from stdin.")
          ->excludes(prompt);
  add_path(command, "--prompts-file", o.prompts_file,
           "Read a prompt from each line of this file; -: from stdin. They are continued as one batch.")
      ->excludes(prompt)
      ->excludes(file);
  command->add_flag("--skip-unknown", o.skip_unknown,
                    "Leave out characters of the prompt that the model does not know.");
}

void add_sampler(CLI::App* command, train::SamplerOptions& o) {
  constexpr double kLargest = 1e30;
  CLI::Option* greedy = command->add_flag_callback(
      "--greedy", [&o] { o.temperature = 0; }, "Always take the most likely token, as --temperature 0 does.");
  add_number(command, "--temperature", o.temperature, {0, kLargest},
             "Divide the logits by this; 0: always take the most likely token.")
      ->excludes(greedy);
  add_integer(command, "--top-k", o.top_k, kCountOrNone, "Sample from the k most likely tokens; 0: from all.")
      ->excludes(greedy);
  add_number(command, "--top-p", o.top_p, {0, 1, true},
             "Nucleus sampling: sample from the smallest set of most likely tokens whose probability reaches this.")
      ->excludes(greedy);
  add_number(command, "--min-p", o.min_p, {0, 1},
             "Sample from the tokens with at least this times the probability of the most likely one; 0: from all.")
      ->excludes(greedy);
  add_number(command, "--repetition-penalty", o.repetition_penalty, {0, kLargest, true},
             "Divide positive logits of tokens that have occurred by this, and multiply negative ones, as transformers "
             "does; 1: none.");
  add_number(command, "--frequency-penalty", o.frequency_penalty, {-kLargest, kLargest},
             "Lower the logit of a token by this for each time that it was generated.");
  add_number(command, "--presence-penalty", o.presence_penalty, {-kLargest, kLargest},
             "Lower the logit of a token that was generated by this.");
}

void add_generate(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command = app.add_subcommand("generate", "Generate text from a checkpoint.");
  train::GenerateOptions& o = arguments.generate;
  add_path(command, "checkpoint", o.checkpoint, train::kCheckpointHelp)->required();
  add_prompts(command, o);
  add_integer(command, "--tokens", o.num_tokens, kCountOrNone, "The maximum number of new tokens per sample.");
  add_integer(command, "--num-samples", o.num_samples, kCount, "The number of samples.");
  add_integer(command, "--seed", o.seed, kSeed, "The random seed of sampling.");
  add_sampler(command, o.sampler);
  add_values(
      command, "--stop", [&o](const std::string& text) { o.stop_texts.push_back(text); }, "TEXT",
      "End a text before the first of these texts in what is generated; may be given several times.");
  add_values(
      command, "--stop-token",
      [&o](const std::string& text) {
        o.stop_tokens.push_back(static_cast<int32_t>(train::integer_option("--stop-token", text, {0, INT32_MAX})));
      },
      "ID", "End a text before a token with this id; may be given several times.");
  command->add_flag("--stats", o.stats, "Print the size of the KV cache and the speed to stderr.");
  train::add_ema(command, o.weights);
  run.alone(command, "generate", [&o] {
    train::run_generate(o);
    return 0;
  });
}

void add_eval(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command =
      app.add_subcommand("eval", "Evaluate a checkpoint on the full validation and test splits of its run.");
  train::EvalOptions& o = arguments.eval;
  add_path(command, "checkpoint", o.checkpoint, train::kCheckpointHelp)->required();
  command->add_option("overrides", o.overrides,
                      "table.key=value …, such as data.path=FILE: the path of the run's data, or of another text, "
                      "which is evaluated whole.");
  add_integer(command, "--seq-len", o.seq_len, {0, 1'000'000},
              "The context length; 0: that of training. Beyond it only if model.position is not \"learned\".");
  CLI::Option* by_position =
      command->add_flag("--by-position", o.by_position, "Also print the loss by the number of tokens before a target.");
  add_path(command, "--csv", o.csv, "Write the loss at each position to this file.")->needs(by_position);
  CLI::Option* text =
      command->add_option("--text", o.text, "Evaluate this text; without a tokenizer: token ids separated by spaces.")
          ->option_text("TEXT");
  add_path(command, "--text-file", o.text_file, "Evaluate the text in this file; -: from stdin.")->excludes(text);
  train::add_ema(command, o.weights);
  run.alone(command, "eval", [&o] {
    train::run_eval(o);
    return 0;
  });
}

void add_inspect(CLI::App& app, Arguments& arguments, const Runner& run) {
  using train::InspectTask;
  CLI::App* command =
      app.add_subcommand("inspect", "Show what the attention heads of a checkpoint do, and what each contributes.");
  train::InspectOptions& o = arguments.inspect;
  add_path(command, "checkpoint", o.checkpoint, train::kCheckpointHelp)->required();
  command->add_option("overrides", o.overrides,
                      "table.key=value …, such as data.path=FILE: the path of the run's data.");
  CLI::Option* text =
      command
          ->add_option("--text", o.text,
                       "Inspect this text, token by token; without a tokenizer: token ids separated by spaces.")
          ->option_text("TEXT");
  add_choice<InspectTask>(
      command, "--task", o.task, {{"data", InspectTask::data}, {"repeat", InspectTask::repeat}},
      "data: validation sequences of the run (training sequences if it has none); repeat: random tokens that repeat, "
      "which only copying predicts.")
      ->excludes(text);
  add_integer(command, "--sequences", o.num_sequences, {1, 1'000'000}, "The number of sequences.")->excludes(text);
  add_path(command, "--output", o.output,
           "The folder for inspect.h5, heads.csv and attention.svg; default: inspect/ in the run folder.");
  train::add_ema(command, o.weights);
  run.alone(command, "inspect", [&o, text] {
    o.has_text = text->count() > 0;
    train::run_inspect(o);
    return 0;
  });
}

int run_bench(const Arguments& arguments) {
  if (arguments.config.empty()) {
    return train::run_alone("bench", [&] {
      train::bench_operations(
          arguments.operations,
          {.device = arguments.device, .dtype = arguments.dtype, .as_json = arguments.bench_step.as_json});
      return 0;
    });
  }
  return train::run_on_ranks([&] { return train::load_config(arguments.config, arguments.operations); },
                             [&](const train::Config& config, comm::ProcessGroup& ranks) {
                               train::bench_step(config, arguments.bench_step, ranks);
                               return 0;
                             });
}

void add_bench(CLI::App& app, Arguments& arguments, const Runner& run) {
  constexpr IntegerRange kSteps{0, 1'000'000};
  CLI::App* command = app.add_subcommand("bench", "Benchmark operations, or training steps of a config.");
  train::BenchStepOptions& o = arguments.bench_step;
  command->add_option("what", arguments.operations,
                      "The operations to benchmark, all without one; with --config: table.key=value ….");
  CLI::Option* config = add_path(command, "--config", arguments.config, "Benchmark training steps of this config.");
  add_choice<Device>(command, "--device", arguments.device, {{"cpu", Device::cpu}, {"cuda", Device::cuda}},
                     "The device of the operations; for a config set train.device.")
      ->excludes(config);
  add_choice<DType>(command, "--dtype", arguments.dtype, {{"f32", DType::f32}, {"bf16", DType::bf16}},
                    "The dtype of the operations; for a config set train.precision.")
      ->excludes(config);
  add_integer(command, "--warm-up", o.warm_up, kSteps, "Untimed training steps before the measurement.")->needs(config);
  add_integer(command, "--steps,--updates", o.steps, kSteps, "Timed training steps; 0: chosen automatically.")
      ->needs(config);
  command->add_flag("--json", o.as_json, "Print one JSON object instead of a table.");
  run.in_each(command, [&arguments] { return run_bench(arguments); });
}

void add_config(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command =
      app.add_subcommand("config", "Show the resolved config: values and their sources, parameters, FLOPs, memory.");
  CLI::Option* file =
      add_path(command, "config", arguments.config, "A TOML file; without one, every key is explained.");
  command->add_option("overrides", arguments.overrides, kOverridesHelp);
  command->add_flag("--markdown", arguments.as_markdown, "Explain every key as a page in Markdown, docs/config.md.")
      ->excludes(file);
  run.in_each(command, [&] {
    if (arguments.as_markdown || arguments.config.empty()) {
      train::print("{}", arguments.as_markdown ? train::config_markdown() : train::config_reference());
      return 0;
    }
    const train::Config config = train::load_config(arguments.config, arguments.overrides);
    train::print("{}\n{}", train::describe_config(config), train::model_summary(config));
    return 0;
  });
}

void add_gradcheck(CLI::App& app, Arguments& arguments, const Runner& run) {
  CLI::App* command = app.add_subcommand("gradcheck", "Check gradients against finite differences in f64.");
  command->add_option("operation", arguments.operations, "The operations to check, or gpt; all without one.");
  run.alone(command, "gradcheck", [&] { return train::run_gradcheck(arguments.operations) ? 0 : 1; });
}

void add_info(CLI::App& app, const Runner& run) {
  CLI::App* command = app.add_subcommand("info", "Show the features of this build and the devices that are available.");
  run.in_each(command, [] {
    train::run_info();
    return 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  // A write beyond a file size limit then fails with an error that names the file, and the old checkpoint is kept.
  std::signal(SIGXFSZ, SIG_IGN);
  // A closed pipe, as in `heed generate … | head`, ends the process at once and silently, whatever the parent process
  // set. Only training continues to the end of its step and saves (train/run/reporter.hpp).
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app("heed trains small causal language models from a config file.", "heed");
  train::set_help_format(app);
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.set_version_flag("--version", std::string("heed ") + train::kVersion, "Print the version and exit.");
  app.require_subcommand(1);
  Arguments arguments;
  int code = 0;
  const Runner run{code};
  add_train(app, arguments, run);
  add_ablate(app, arguments, run);
  add_plot(app, arguments, run);
  add_report(app, arguments, run);
  add_generate(app, arguments, run);
  add_inspect(app, arguments, run);
  train::add_at(app, run);
  train::add_export(app, run);
  train::add_import(app, run);
  train::add_data(app, run);
  add_eval(app, arguments, run);
  add_config(app, arguments, run);
  add_gradcheck(app, arguments, run);
  add_bench(app, arguments, run);
  add_info(app, run);
  // Set after the commands are added, since they would inherit it.
  app.footer("heed COMMAND --help explains a command. ./heed test builds and runs the tests.");
  const int status = train::guarded([&] {
    try {
      train::require_known_command(app, argc, argv);
      app.parse(argc, argv);
      return code;
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return print_help(app, error);
      return train::print_error(train::describe_usage_error(app, error), 2);
    }
  });
  return end_by_signal(arguments.stop_signal, status);
}
