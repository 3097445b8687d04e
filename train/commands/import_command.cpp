#include "data/io/atomic_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/commands/commands.hpp"
#include "train/huggingface/import_model.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"

namespace heed::train {

void run_import(const ImportOptions& options) {
  data::NewFile file(options.checkpoint);
  const Imported imported = import_model(options.folder);
  save_checkpoint(file.working_path(), imported.content);
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
