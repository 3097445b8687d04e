#include "train/trainer/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/build_info.hpp"
#include "autograd/tape.hpp"
#include "data/io/checksum.hpp"
#include "train/comm/agreement.hpp"
#include "train/output/number_text.hpp"
#include "train/output/progress.hpp"
#include "train/trainer/memory.hpp"
#include "train/trainer/parameter_options.hpp"

namespace heed::train {
namespace {

// The config values that must be the same on all ranks. Paths may differ: each rank may read the data from a folder of
// its own, such as a disk of its node (the contents are compared), and only the root writes to its run folder.
std::string config_without_paths(Config config) {
  config.data.path.clear();
  config.data.tokenizer_file.clear();
  config.train.run_dir.clear();
  config.train.init_from = config.train.init_from.empty() ? "" : "set";
  return config_to_toml(config);
}

double count_targets(const std::vector<data::Batch>& batches) {
  int64_t targets = 0;
  for (const data::Batch& batch : batches) {
    targets += static_cast<int64_t>(batch.targets.size()) -
               std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoreTarget);
  }
  return static_cast<double>(targets);
}

// Ranks that run different programs would compute different results, or deadlock.
std::string describe_program() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/exe", "rb"), std::fclose);
  if (file == nullptr) return "unknown";
  data::Checksum checksum;
  std::vector<char> piece(1 << 20);
  while (const size_t got = std::fread(piece.data(), 1, piece.size(), file.get())) {
    checksum.update(piece.data(), static_cast<int64_t>(got));
  }
  return fmt::format("program of checksum {:016x}", checksum.value());
}

// RAII: sets anomaly mode, then restores its previous value.
class AnomalyGuard {
 public:
  explicit AnomalyGuard(bool on) : before_(detect_anomaly()) { set_detect_anomaly(on); }
  ~AnomalyGuard() { set_detect_anomaly(before_); }
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;

 private:
  bool before_;
};

}  // namespace

Trainer::Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup>&& own_ranks, comm::ProcessGroup& ranks,
                 const MakeCommunicator& make, const Pretrained* pretrained)
    : own_ranks_(std::move(own_ranks)), ranks_(ranks), config_(config) {
  comm::require_same_on_all_ranks(ranks_, "config", config_without_paths(config_));
  if (ranks_.size() > 1) comm::require_same_on_all_ranks(ranks_, "program", describe_program());
  comm::check_on_all_ranks(ranks_, [&] { build(pretrained); });
  comm::require_same_on_all_ranks(ranks_, "data", dataset_->fingerprint());
  comm::require_same_on_all_ranks(ranks_, "device",
                                  std::string(device() == Device::cuda ? "CUDA" : cpu::instruction_set()));
  require_same_weights();
  communicator_ = make(ranks_, device());
  comm::check_on_all_ranks(ranks_, [&] { build_step(); });
}
Trainer::Trainer(const Config& config, comm::ProcessGroup& ranks, const MakeCommunicator& make,
                 const Pretrained* pretrained)
    : Trainer(config, nullptr, ranks, make, pretrained) {}
Trainer::Trainer(const Config& config) : Trainer(config, comm::single_rank()) {}
Trainer::Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup> single)
    : Trainer(config, std::move(single), *single, comm::make_communicator, nullptr) {}

void Trainer::build(const Pretrained* pretrained) {
  share_batch(config_, ranks_.size());
  const Device device = choose_device(config_);
  advise_on_training_memory();
  // Checked before the data is read, and again once the data determines the vocabulary size.
  require_host_memory(config_, device, false, ranks_.is_root());
  require<ValueError>(pretrained != nullptr || config_.train.init_from.empty(),
                      "Trainer: train.init_from is set, and no pretrained model is given");
  if (pretrained != nullptr) require_same_architecture(*pretrained, config_);
  dataset_ = make_dataset(config_, pretrained == nullptr ? nullptr : pretrained->tokenizer,
                          ranks_.is_root() ? text_progress() : data::Progress());
  if (pretrained != nullptr) require_same_tokenizer(*pretrained, dataset_->tokenizer());
  // A pretrained model may have more tokens than its tokenizer.
  const int64_t vocab_size = std::max(dataset_->vocab_size(), pretrained == nullptr ? 0 : pretrained->vocab_size());
  set_from_data(config_.model, config_.data, vocab_size, dataset_->tokenizer());
  require_host_memory(config_, device, true, ranks_.is_root());
  loader_ = std::make_unique<data::BatchLoader>(*dataset_, config_.model.seq_len, config_.train.batch_size);
  model_ = std::make_unique<nn::Gpt>(config_.model, config_.train.precision, device,
                                     comm::GradBuckets::span_multiple(ranks_.size()));
  if (pretrained != nullptr) copy_parameters(*pretrained, model_->parameters());
  model_->set_recompute(config_.train.recompute);
}

void Trainer::build_step() {
  const TrainConfig& c = config_.train;
  nn::ParameterStore& store = model_->parameters();
  buckets_ =
      std::make_unique<comm::GradBuckets>(*communicator_, store, c.shard_optimizer, entry_options(config_, store));
  optimizer_ = make_optimizer(config_, store, *buckets_);
  if (ranks_.is_root()) require_checkpoint_memory(config_, device());
  if (device() == Device::cuda) cuda::set_tf32(c.tf32);
  training_step_ =
      std::make_unique<TrainingStep>(*model_, *buckets_, *communicator_, *optimizer_,
                                     TrainingStepOptions{.micro_batches = c.rows_per_rank() / c.rows_per_micro_batch(),
                                                         .rows = c.rows_per_micro_batch(),
                                                         .seq_len = config_.model.seq_len,
                                                         .first_row = ranks_.rank() * c.rows_per_rank(),
                                                         .seed = c.seed,
                                                         .use_graph = c.cuda_graph && !c.detect_anomaly});
}

void Trainer::require_same_weights() const {
  if (ranks_.size() == 1) return;
  data::Checksum checksum;
  for (const nn::ParameterGroup& group : model_->parameters().groups()) {
    const Tensor here = group.leaves().to(Device::cpu);
    checksum.update(here.ref().data, here.numel() * size_bytes(here.dtype()));
  }
  comm::require_same_on_all_ranks(ranks_, fmt::format("weights after step {}", step_),
                                  fmt::format("{:016x}", checksum.value()));
}

void Trainer::resume_at(int64_t step, int64_t optimizer_steps) {
  step_ = step;
  next_.reset();
  optimizer_->restore_steps(optimizer_steps);
}

Trainer::Drawn Trainer::draw_batches(int64_t step) const {
  const int64_t rows = config_.train.rows_per_micro_batch(), own = config_.train.rows_per_rank();
  const int64_t begin = ranks_.rank() * own;
  Drawn drawn{.step = step, .batches = {}, .error = {}};
  try {
    for (int64_t first = begin; first < begin + own; first += rows) {
      drawn.batches.push_back(loader_->train_batch(static_cast<uint64_t>(step), first, rows));
    }
  } catch (const std::exception&) {  // thrown by train_step(), on all ranks
    drawn = {.step = step, .batches = {}, .error = std::current_exception()};
  }
  return drawn;
}

StepResult Trainer::train_step(bool stop) {
  ranks_.set_step(step_ + 1);
  const AnomalyGuard anomaly(config_.train.detect_anomaly);
  const bool is_drawn = next_ && next_->step == step_ && !next_->error;
  const Drawn drawn = is_drawn ? std::move(*next_) : draw_batches(step_);
  next_.reset();
  const double learning_rate = optim::learning_rate(schedule_options(config_), step_);
  const optim::StepState done = run_step(drawn, learning_rate, stop);
  require_batch(done, drawn.error);
  if (done.is_valid == 0) report_divergence(done.loss, done.grad_norm);
  ++step_;
  return {.step = step_,
          .targets = static_cast<int64_t>(done.targets),
          .loss = done.loss,
          .learning_rate = learning_rate,
          .grad_norm = done.grad_norm,
          .must_stop = done.must_stop > 0};
}

// A rank without a batch takes part, so that the others do not wait for it.
optim::StepState Trainer::run_step(const Drawn& drawn, double learning_rate, bool stop) {
  if (drawn.error && ranks_.size() == 1) std::rethrow_exception(drawn.error);
  const bool on_cuda = device() == Device::cuda;
  // NCCL connects the ranks in the first all-reduce, and may block for them in later ones. On the CPU the communicator
  // itself marks its waits.
  std::optional<comm::Waiting> waiting;
  if (on_cuda) waiting.emplace(ranks_, "the training step of all ranks to start");
  training_step_->start({.learning_rate = learning_rate,
                         .clip_norm = config_.optim.clip_norm,
                         .optimizer_step = optimizer_->steps() + 1,
                         .bias_correction = optimizer_->bias_correction(optimizer_->steps() + 1),
                         .step = static_cast<uint64_t>(step_),
                         .targets = count_targets(drawn.batches),
                         .must_stop = stop ? 1.0 : 0.0,
                         .failed = drawn.error ? 1.0 : 0.0},
                        drawn.batches);
  waiting.reset();
  if (on_cuda && step_ + 1 < config_.train.steps) next_ = draw_batches(step_ + 1);
  if (on_cuda) waiting.emplace(ranks_, "the training step of all ranks");
  return training_step_->finish();
}

void Trainer::require_batch(const optim::StepState& done, const std::exception_ptr& error) const {
  if (done.failed == 0 && done.targets > 0) return;
  comm::check_on_all_ranks(ranks_, [&] {
    if (error) std::rethrow_exception(error);
    if (done.failed == 0) throw DataError(fmt::format("step {}: the batch has no targets", step_ + 1));
  });
}

void Trainer::report_divergence(double loss, double grad_norm) {
  // A step is a pure function of its state, so running it again reproduces the NaN, on the rank that has its row.
  trace_divergence(
      fmt::format("diverged at step {} (loss {}, grad norm {})", step_ + 1, loss_text(loss), number_text(grad_norm)),
      [&] { training_step_->repeat_gradients(); });
}

void Trainer::report_diverged_evaluation(data::Split split, int64_t max_batches, double loss,
                                         EvaluatedWeights weights) {
  const bool is_average = weights == EvaluatedWeights::average;
  trace_divergence(
      fmt::format("diverged after step {} ({} loss{} {})", step_, split == data::Split::test ? "test" : "validation",
                  is_average ? " of the averaged weights" : "", loss_text(loss)),
      [&] {
        with_weights(weights, [&] {
          evaluate_share(*model_, *dataset_, *loader_, split, config_.train.rows_per_micro_batch(), max_batches,
                         ranks_);
        });
      });
}

void Trainer::trace_divergence(const std::string& what, const std::function<void()>& run_again) {
  const std::string advice = fmt::format("lower optim.learning_rate, raise optim.warmup_steps or {} optim.clip_norm",
                                         config_.optim.clip_norm > 0 ? "lower" : "set");
  std::string found;
  reset_graph();
  try {
    const AnomalyGuard anomaly(true);
    run_again();
  } catch (const DivergedError& error) {
    found = error.what();
  } catch (const std::exception& error) {
    found = fmt::format("which operation made it is not known: {}", error.what());
  }
  const std::vector<char> finders = ranks_.gather(static_cast<char>(found.empty() ? 0 : 1));
  const bool any_found = std::count(finders.begin(), finders.end(), 1) > 0;
  comm::check_on_all_ranks(ranks_, [&] {
    if (!found.empty()) throw DivergedError(fmt::format("{}; {}; {}", what, found, advice));
    if (!any_found) throw DivergedError(fmt::format("{}; no operation made a NaN or Inf by itself; {}", what, advice));
  });
  throw DivergedError(what);  // unreachable: check_on_all_ranks() has thrown
}

bool Trainer::reset_graph() const { return training_step_ != nullptr && training_step_->reset_graph(); }

Evaluation Trainer::evaluate(data::Split split, int64_t max_batches) const {
  return evaluate(split, max_batches, {}).value();
}

std::optional<Evaluation> Trainer::evaluate(data::Split split, int64_t max_batches, const EvaluationProgress& progress,
                                            EvaluatedWeights weights) const {
  std::optional<Evaluation> evaluation;
  const auto run = [&] {
    with_weights(weights, [&] { evaluation = evaluate_once(split, max_batches, progress); });
    return evaluation;
  };
  try {
    return run();
  } catch (const MemoryError&) {
    // The captured graph may hold the memory that is missing. With several ranks all of them would have to capture
    // again.
    if (ranks_.size() > 1 || !reset_graph()) throw;
  }
  return run();
}

void Trainer::with_weights(EvaluatedWeights weights, const std::function<void()>& work) const {
  if (weights == EvaluatedWeights::last) return work();
  require<ConfigError>(optimizer_->averages_weights(), "there are no averaged weights: optim.ema_decay is 0");
  const auto swap = [&] {
    optimizer_->swap_weights_with_average();
    buckets_->all_gather_parameters();
    const comm::Waiting waiting(ranks_, "the all-gather of the weights");
    synchronize(device());
  };
  std::exception_ptr error;
  swap();
  try {
    work();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  try {
    swap();
  } catch (const std::exception&) {
    if (!error) throw;  // with a lost rank both fail: the first error is the one to report
  }
  if (error) std::rethrow_exception(error);
}

int64_t Trainer::eval_sequences(data::Split split, int64_t max_batches) const {
  const int64_t all = loader_->num_eval_sequences(split);
  return max_batches == 0 ? all : std::min(all, max_batches * loader_->batch_size());
}

std::optional<Evaluation> Trainer::evaluate_once(data::Split split, int64_t max_batches,
                                                 const EvaluationProgress& progress) const {
  return train::evaluate(*model_, *dataset_, *loader_, split, config_.train.rows_per_micro_batch(), max_batches, ranks_,
                         progress);
}

}  // namespace heed::train
