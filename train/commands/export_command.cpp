#include "data/io/posix_file.hpp"
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

}  // namespace heed::train
