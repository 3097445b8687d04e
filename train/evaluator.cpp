#include "train/evaluator.hpp"

#include <algorithm>

#include "autograd/tape.hpp"
#include "data/tokenizer.hpp"

namespace heed::train {
namespace {

// Adds the source's loss of each window; none if it has no law.
std::optional<double> source_loss(const data::Source& source, const data::Batch& batch) {
  double sum = 0;
  const auto width = static_cast<size_t>(batch.seq_len);
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row) {
    const std::optional<double> loss = source.log_loss(std::span(batch.inputs).subspan(row * width, width),
                                                       std::span(batch.targets).subspan(row * width, width));
    if (!loss) return std::nullopt;
    sum += *loss;
  }
  return sum;
}

int64_t bytes_of(const data::Source& source, const std::vector<int32_t>& targets) {
  int64_t bytes = 0;
  if (source.tokenizer() == nullptr) return bytes;
  for (const int32_t target : targets) {
    if (target != data::kIgnoreTarget) bytes += static_cast<int64_t>(source.tokenizer()->bytes(target).size());
  }
  return bytes;
}

// Without a graph more rows fit into memory than in training: small models are evaluated faster by enough tokens at a
// time, as long as their logits stay small.
int64_t rows_at_a_time(const nn::Gpt& model, int64_t rows_per_batch) {
  constexpr int64_t kTokens = 2048, kLogits = int64_t{1} << 22;
  const int64_t tokens = std::min(kTokens, kLogits / model.config().vocab_size);
  return std::max(rows_per_batch, tokens / model.config().seq_len);
}

}  // namespace

Evaluation evaluate(const nn::Gpt& model, const data::Source& source, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches) {
  const NoGradGuard no_grad;
  const int64_t rows = rows_at_a_time(model, rows_per_batch);
  const int64_t windows = loader.num_eval_windows(split);
  const int64_t wanted = max_batches == 0 ? windows : std::min(windows, max_batches * loader.batch_size());
  double loss_sum = 0;
  std::optional<double> source_sum = 0.0;
  Evaluation result{.whole_split = wanted == windows};
  for (int64_t first = 0; first < wanted; first += rows) {
    const data::Batch batch = loader.eval_batch(split, first, std::min(rows, wanted - first));
    const Shape shape{batch.rows, batch.seq_len};
    const auto counted = batch.targets.size() - static_cast<size_t>(std::count(
                                                    batch.targets.begin(), batch.targets.end(), data::kIgnoreTarget));
    if (counted == 0) continue;
    // A denominator of 1 gives the sum.
    const Device device = model.parameters().device();
    loss_sum +=
        model.loss(from_tokens(shape, batch.inputs, device), from_tokens(shape, batch.targets, device), {}, 1.0).item();
    result.targets += static_cast<int64_t>(counted);
    result.target_bytes += bytes_of(source, batch.targets);
    if (source_sum) {
      const std::optional<double> own = source_loss(source, batch);
      source_sum = own ? std::optional(*source_sum + *own) : std::nullopt;
    }
  }
  require<DataError>(result.targets > 0, "evaluation: the split has no targets");
  const auto count = static_cast<double>(result.targets);
  result.loss = loss_sum / count;
  if (source_sum) result.excess = (loss_sum - *source_sum) / count;
  return result;
}

}  // namespace heed::train
