#include "train/eval_command.hpp"

#include <unistd.h>

#include <cmath>
#include <numbers>

#include "train/checkpoint_file.hpp"
#include "train/evaluator.hpp"
#include "train/output.hpp"
#include "train/reporter.hpp"
#include "train/snapshot.hpp"
#include "train/text_progress.hpp"

namespace heed::train {

void run_eval(const std::string& checkpoint, const std::vector<std::string>& overrides) {
  const LoadedModel loaded = load_model(load_checkpoint(checkpoint), overrides);
  const std::unique_ptr<data::Source> source = make_source(loaded.config, text_progress());
  require<DataError>(loaded.tokenizer == nullptr || (source->tokenizer() != nullptr &&
                                                     source->tokenizer()->serialize() == loaded.tokenizer->serialize()),
                     "eval: the tokenizer made from {} ({} tokens) is not the checkpoint's ({} tokens); set data.path "
                     "to the text that the model was trained on",
                     loaded.config.data.path, source->vocab_size(), loaded.model->config().vocab_size);
  const int64_t seq_len = loaded.config.model.seq_len;
  const data::BatchLoader loader(*source, seq_len, loaded.config.train.batch_size);
  require<DataError>(loader.num_eval_windows(data::Split::validation) + loader.num_eval_windows(data::Split::test) > 0,
                     "eval: {} was trained without validation and test (data.val_fraction = 0, data.test_fraction = "
                     "0), so there is nothing to evaluate",
                     checkpoint);
  const std::unique_ptr<comm::Ranks> ranks = comm::single_rank();
  ProgressLine line(STDERR_FILENO, write_notice);
  print("{}, after update {}\n", checkpoint, loaded.step);
  for (const auto& [split, name] : {std::pair{data::Split::validation, "validation"}, {data::Split::test, "test"}}) {
    if (loader.num_eval_windows(split) == 0) continue;
    const Evaluation e = evaluate(*loaded.model, *source, loader, split, loaded.config.train.rows_per_micro_batch(), 0,
                                  *ranks, evaluation_bar(line, name))
                             .value();
    print("{:<11} loss {:.6f}  perplexity {:.6g}", name, e.loss, std::exp(e.loss));
    if (e.target_bytes > 0) {
      const double bits = e.loss * static_cast<double>(e.targets) / std::numbers::ln2;
      print("  bits per byte {:.4f}", bits / static_cast<double>(e.target_bytes));
    }
    if (e.excess) print("  excess {:.4f}", *e.excess);
    print("  ({} targets, each once)\n", e.targets);
  }
}

}  // namespace heed::train
