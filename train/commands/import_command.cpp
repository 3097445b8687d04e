#include <filesystem>

#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
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

}  // namespace heed::train
