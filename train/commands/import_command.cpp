#include <filesystem>

#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/commands/command_options.hpp"
#include "train/commands/command_runner.hpp"
#include "train/commands/commands.hpp"
#include "train/huggingface/import_model.hpp"
#include "train/huggingface/new_folder.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"

namespace heed::train {

void run_import(const ImportOptions& options) {
  const bool is_there =
      std::filesystem::symlink_status(options.checkpoint).type() != std::filesystem::file_type::not_found;
  require<DataError>(!is_there, "import: {} exists already: choose another name",
                     data::quoted_path(options.checkpoint));
  const Imported imported = import_model(options.folder);
  data::NewFile file(options.checkpoint);
  with_final_name(file.working_path(), options.checkpoint,
                  [&] { save_checkpoint(file.working_path(), imported.content); });
  file.commit();
  int64_t parameters = 0;
  for (const auto& [name, tensor] : imported.content.tensors) parameters += tensor.numel();
  print("model       {}, {} parameters, vocabulary {}\n", imported.config.model_class->architecture,
        count_text(static_cast<double>(parameters)), imported.config.model.vocab_size);
  print("tokenizer   {}\n", imported.tokenizer);
  print("checkpoint  {}\n\n", data::quoted_path(options.checkpoint));
  print("To train it further, in a config file:\n\n");
  print("{}\n[train]\ninit_from = {}\n", model_table(imported.config.model), data::quoted_path(options.checkpoint));
}

void add_import(CLI::App& app, const Runner& run) {
  CLI::App* command = app.add_subcommand("import", "Read a model folder of Hugging Face transformers as a checkpoint.");
  const auto options = std::make_shared<ImportOptions>();
  ImportOptions& o = *options;
  add_path(command, "folder", o.folder,
           "A folder with config.json and model.safetensors, of the class gpt2, llama, mistral, qwen2, qwen3, phi3, "
           "arcee, apertus or starcoder2.")
      ->required();
  add_path(command, "checkpoint", o.checkpoint, "The checkpoint (.h5) to make; it must not exist.")->required();
  run.alone(command, "import", [options] {
    run_import(*options);
    return 0;
  });
}

}  // namespace heed::train
