#include "train/trainer/evaluator.hpp"

#include <algorithm>
#include <exception>
#include <numbers>

#include "autograd/tape.hpp"
#include "data/text/tokenizer.hpp"
#include "train/comm/agreement.hpp"

namespace heed::train {
namespace {

// Sum of the dataset's own loss over the sequences of the batch; nullopt if it has no exact distribution.
std::optional<double> dataset_loss(const data::Dataset& dataset, const data::Batch& batch) {
  double sum = 0;
  const auto width = static_cast<size_t>(batch.seq_len);
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row) {
    const std::optional<double> loss = dataset.log_loss(std::span(batch.inputs).subspan(row * width, width),
                                                        std::span(batch.targets).subspan(row * width, width));
    if (!loss) return std::nullopt;
    sum += *loss;
  }
  return sum;
}

int64_t bytes_of(const data::Dataset& dataset, const std::vector<int32_t>& targets) {
  int64_t bytes = 0;
  if (dataset.tokenizer() == nullptr) return bytes;
  for (const int32_t target : targets) {
    if (target != data::kIgnoreTarget) bytes += static_cast<int64_t>(dataset.tokenizer()->bytes(target).size());
  }
  return bytes;
}

// Sums over sequences.
struct Sums {
  double loss = 0, dataset_loss = 0;
  int64_t targets = 0, target_bytes = 0;
  bool has_law = true, stopped = false, failed = false;

  void add(const Sums& other) {
    loss += other.loss;
    dataset_loss += other.dataset_loss;
    targets += other.targets;
    target_bytes += other.target_bytes;
    has_law = has_law && other.has_law;
    stopped = stopped || other.stopped;
    failed = failed || other.failed;
  }
};

// Adds the per-token losses of a batch to the sums of their positions, and returns the sum of all.
double add_by_position(const nn::Gpt& model, const data::Batch& batch, const Tensor& tokens, const Tensor& targets,
                       PositionLosses& positions) {
  double sum = 0;
  const std::vector<double> losses = model.losses(tokens, targets, {}).values();
  positions.losses.resize(static_cast<size_t>(batch.seq_len));
  positions.targets.resize(static_cast<size_t>(batch.seq_len));
  for (size_t i = 0; i < losses.size(); ++i) {
    const size_t t = i % static_cast<size_t>(batch.seq_len);
    positions.losses[t] += losses[i];
    positions.targets[t] += batch.targets[i] != data::kIgnoreTarget ? 1 : 0;
    sum += losses[i];
  }
  return sum;
}

Sums sums_of(const nn::Gpt& model, const data::Dataset& dataset, const data::Batch& batch, PositionLosses* positions) {
  const Shape shape{batch.rows, batch.seq_len};
  const auto ignored = std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoreTarget);
  Sums sums{.targets = static_cast<int64_t>(batch.targets.size()) - ignored};
  if (sums.targets == 0) return sums;
  const Device device = model.parameters().device();
  const Tensor tokens = from_tokens(shape, batch.inputs, device);
  const Tensor targets = from_tokens(shape, batch.targets, device);
  // The denominator 1 turns the mean into the sum.
  sums.loss = positions != nullptr ? add_by_position(model, batch, tokens, targets, *positions)
                                   : model.loss(tokens, targets, {}, 1.0).item();
  sums.target_bytes = bytes_of(dataset, batch.targets);
  const std::optional<double> own = dataset_loss(dataset, batch);
  sums.has_law = own.has_value();
  sums.dataset_loss = own.value_or(0);
  return sums;
}

// The batches of one rank: they begin at sequence `first` and then every `stride` sequences.
struct Share {
  int64_t first = 0, stride = 1, end = 0;
  int64_t batches() const { return first < end ? (end - first + stride - 1) / stride : 0; }
};

Sums sums_of_share(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                   data::Split split, int64_t rows, const Share& share, const EvaluationProgress& progress,
                   PositionLosses* positions = nullptr) {
  const int64_t total = share.batches();
  const auto goes_on = [&](int64_t done) { return !progress || progress(done, total) || done == total; };
  Sums sums;
  sums.stopped = !goes_on(0);
  for (int64_t done = 0; done < total && !sums.stopped; sums.stopped = !goes_on(++done)) {
    const int64_t first = share.first + done * share.stride;
    sums.add(sums_of(model, dataset, loader.eval_batch(split, first, std::min(rows, share.end - first)), positions));
  }
  return sums;
}

// The share of a rank; `rows` sequences at a time, `wanted` in all.
Share share_of(const comm::ProcessGroup& ranks, int64_t rows, int64_t wanted) {
  return {.first = ranks.rank() * rows, .stride = ranks.size() * rows, .end = wanted};
}

int64_t sequences_wanted(const data::BatchLoader& loader, data::Split split, int64_t max_batches) {
  const int64_t all = loader.num_eval_sequences(split);
  return max_batches == 0 ? all : std::min(all, max_batches * loader.batch_size());
}

}  // namespace

int64_t rows_at_a_time(const nn::Gpt& model, int64_t seq_len, int64_t rows_per_batch) {
  constexpr int64_t kTokens = 2048, kLogits = int64_t{1} << 22;
  const int64_t tokens = std::min(kTokens, kLogits / model.config().vocab_size);
  return std::max(rows_per_batch, tokens / seq_len);
}

std::optional<double> Evaluation::bits_per_byte() const {
  if (target_bytes == 0) return {};
  return loss * static_cast<double>(targets) / std::numbers::ln2 / static_cast<double>(target_bytes);
}

std::optional<Evaluation> evaluate(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                                   data::Split split, int64_t rows_per_batch, int64_t max_batches,
                                   comm::ProcessGroup& ranks, const EvaluationProgress& progress,
                                   PositionLosses* positions) {
  const NoGradGuard no_grad;
  const int64_t rows = rows_at_a_time(model, loader.seq_len(), rows_per_batch);
  const int64_t wanted = sequences_wanted(loader, split, max_batches);
  Sums own, all;
  std::exception_ptr error;
  try {
    own = sums_of_share(model, dataset, loader, split, rows, share_of(ranks, rows, wanted), progress, positions);
  } catch (const std::exception&) {
    error = std::current_exception();
    own.failed = true;
  }
  for (const Sums& sums : ranks.gather(own)) all.add(sums);
  if (all.failed) {
    comm::check_on_all_ranks(ranks, [&] {
      if (error) std::rethrow_exception(error);
    });
  }
  if (all.stopped) return std::nullopt;
  require<DataError>(all.targets > 0, "evaluation: the split has no targets");
  const auto count = static_cast<double>(all.targets);
  Evaluation result{.loss = all.loss / count,
                    .targets = all.targets,
                    .sequences = wanted,
                    .whole_split = wanted == loader.num_eval_sequences(split),
                    .target_bytes = all.target_bytes};
  if (all.has_law) result.excess = (all.loss - all.dataset_loss) / count;
  return result;
}

Evaluation evaluate(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, comm::ProcessGroup& ranks) {
  return evaluate(model, dataset, loader, split, rows_per_batch, max_batches, ranks, {}).value();
}

void evaluate_share(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, const comm::ProcessGroup& ranks) {
  const NoGradGuard no_grad;
  const int64_t rows = rows_at_a_time(model, loader.seq_len(), rows_per_batch);
  const Share share = share_of(ranks, rows, sequences_wanted(loader, split, max_batches));
  sums_of_share(model, dataset, loader, split, rows, share, {});
}

}  // namespace heed::train
