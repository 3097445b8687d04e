#include "data/io/posix_file.hpp"
#include "train/commands/command_options.hpp"
#include "train/commands/command_runner.hpp"
#include "train/commands/commands.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"

namespace heed::train {

void run_export(const ExportOptions& options) {
  const Exported done = export_model(options);
  print("model       {}, {} parameters, {}\n", done.model_class->architecture,
        count_text(static_cast<double>(done.loaded.model->parameters().parameters())),
        options.dtype == DType::bf16 ? "bfloat16" : "float32");
  print("checkpoint  {}, step {}{}\n", data::quoted_path(done.checkpoint), done.loaded.step,
        weights_text(options.weights));
  if (done.verification) {
    print("verified    on {} random tokens: logits from the written files differ by at most {} (largest logit {})\n",
          done.verification->tokens, number_text(done.verification->largest_difference, 2),
          number_text(done.verification->largest_logit));
  }
  std::string names;
  for (const std::string& name : done.files) names += (names.empty() ? "" : ", ") + name;
  print("folder      {}: {}\n", data::quoted_path(options.folder), names);
}

void add_export(CLI::App& app, const Runner& run) {
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint as a folder that Hugging Face transformers loads.");
  const auto options = std::make_shared<ExportOptions>();
  ExportOptions& o = *options;
  add_path(command, "checkpoint", o.checkpoint, kCheckpointHelp)->required();
  add_path(command, "folder", o.folder, "The output folder: a new one, or an empty one.")->required();
  add_choice<DType>(command, "--dtype", o.dtype, {{"f32", DType::f32}, {"bf16", DType::bf16}},
                    "The data type of the stored weights.");
  add_integer(command, "--max-file-mb", o.max_file_mb, {1, 1'000'000},
              "Split weights that are larger than this, in MB, into several files.");
  command->add_flag_callback(
      "--no-verify", [&o] { o.verify = false; },
      "Skip the verification, which compares logits computed from the written files with the model's.");
  add_ema(command, o.weights);
  run.alone(command, "export", [options] {
    run_export(*options);
    return 0;
  });
}

}  // namespace heed::train
