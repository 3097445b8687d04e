#include "train/trainer/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/build_info.hpp"
#include "autograd/tape.hpp"
#include "data/io/checksum.hpp"
#include "data/synthetic_source.hpp"
#include "data/text_source.hpp"
#include "optim/adamw.hpp"
#include "optim/grad_clip.hpp"
#include "optim/sgd.hpp"
#include "train/comm/agreement.hpp"
#include "train/output/number_text.hpp"
#include "train/output/text_progress.hpp"
#include "train/trainer/memory_check.hpp"

namespace heed::train {
namespace {

// The config values that must be the same on all ranks. Paths may differ: each rank may read the data from a folder of
// its own, such as a disk of its node (the contents are compared), and only the root writes to its run folder.
std::string config_without_paths(Config config) {
  config.data.path.clear();
  config.train.run_dir.clear();
  return config_to_toml(config);
}

int64_t counted_targets(const data::Batch& batch) {
  return static_cast<int64_t>(batch.targets.size()) -
         std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoreTarget);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimConfig& c, const std::vector<optim::ParameterSpan>& spans) {
  if (c.optimizer == OptimizerKind::sgd) {
    return std::make_unique<optim::Sgd>(spans, optim::SgdOptions{.weight_decay = c.weight_decay});
  }
  return std::make_unique<optim::AdamW>(
      spans, optim::AdamWOptions{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps, .weight_decay = c.weight_decay});
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

std::unique_ptr<data::Source> make_source(const Config& config, std::shared_ptr<const data::Tokenizer> tokenizer,
                                          const data::Progress& progress) {
  const DataConfig& c = config.data;
  // 0 lines means: split by the fraction.
  const auto lines = [](int64_t count) { return count == 0 ? std::nullopt : std::optional(count); };
  switch (c.source) {
    case DataSource::ngram:
      return std::make_unique<data::NgramSource>(
          data::NgramConfig{.order = c.order, .vocab_size = c.vocab_size, .alpha = c.alpha, .seed = c.seed});
    case DataSource::skip:
      return std::make_unique<data::SkipSource>(
          data::SkipConfig{.offsets = c.offsets, .vocab_size = c.vocab_size, .alpha = c.alpha, .seed = c.seed});
    case DataSource::text:
      return data::make_text_source({.path = c.path,
                                     .tokenizer = c.tokenizer,
                                     .vocab_size = c.vocab_size,
                                     .split = c.split,
                                     .parts = {.val_fraction = c.val_fraction,
                                               .test_fraction = c.test_fraction,
                                               .val_lines = lines(c.val_lines),
                                               .test_lines = lines(c.test_lines)},
                                     .seed = c.seed,
                                     .seq_len = config.model.seq_len,
                                     .known_tokenizer = std::move(tokenizer)},
                                    progress);
    case DataSource::tokens:
      return data::make_token_source({.path = c.path, .seed = c.seed, .seq_len = config.model.seq_len});
  }
  throw ConfigError("data.source has no such value");
}

Device choose_device(const Config& config) {
  const bool is_f64 = config.train.precision == DType::f64;
  switch (config.train.device) {
    case DeviceChoice::cpu:
      return Device::cpu;
    case DeviceChoice::automatic:
      return is_f64 || !cuda::status().problem.empty() ? Device::cpu : Device::cuda;
    case DeviceChoice::cuda:
      break;
  }
  require<ConfigError>(!is_f64,
                       "train.precision = \"f64\" is for the CPU: set it to \"f32\", or train.device = \"cpu\"");
  require<DeviceError>(cuda::status().problem.empty(), "train.device = \"cuda\": {}; set it to \"cpu\" or \"auto\"",
                       cuda::status().problem);
  return Device::cuda;
}

optim::ScheduleOptions schedule_options(const Config& config) {
  using Kind = optim::ScheduleOptions::Kind;
  constexpr Kind kKinds[] = {Kind::cosine, Kind::linear, Kind::constant};
  return {.kind = kKinds[static_cast<size_t>(config.optim.schedule)],
          .peak = config.optim.learning_rate,
          .minimum = config.optim.min_learning_rate,
          .warmup_steps = config.optim.warmup_steps,
          .total_steps = config.train.steps};
}

Trainer::Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup>&& own_ranks, comm::ProcessGroup& ranks,
                 const MakeCommunicator& make)
    : own_ranks_(std::move(own_ranks)), ranks_(ranks), config_(config) {
  comm::require_same_on_all_ranks(ranks_, "config", config_without_paths(config_));
  if (ranks_.size() > 1) comm::require_same_on_all_ranks(ranks_, "program", describe_program());
  comm::check_on_all_ranks(ranks_, [&] { build(); });
  comm::require_same_on_all_ranks(ranks_, "data", source_->fingerprint());
  comm::require_same_on_all_ranks(ranks_, "device",
                                  std::string(device() == Device::cuda ? "CUDA" : cpu::instruction_set()));
  require_same_weights();
  communicator_ = make(ranks_, device());
  comm::check_on_all_ranks(ranks_, [&] { build_update(); });
}
Trainer::Trainer(const Config& config, comm::ProcessGroup& ranks, const MakeCommunicator& make)
    : Trainer(config, nullptr, ranks, make) {}
Trainer::Trainer(const Config& config) : Trainer(config, comm::single_rank()) {}
Trainer::Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup> single)
    : Trainer(config, std::move(single), *single, comm::make_communicator) {}

void Trainer::build() {
  share_batch(config_, ranks_.size());
  const Device device = choose_device(config_);
  advise_on_training_memory();
  // Checked before the data is read, and again once the data determines the vocabulary size.
  require_host_memory(config_, device, false, ranks_.is_root());
  source_ = make_source(config_, nullptr, ranks_.is_root() ? text_progress() : data::Progress());
  config_.model.vocab_size = source_->vocab_size();
  require_host_memory(config_, device, true, ranks_.is_root());
  loader_ = std::make_unique<data::BatchLoader>(*source_, config_.model.seq_len, config_.train.batch_size);
  model_ = std::make_unique<nn::Gpt>(config_.model, config_.train.precision, device,
                                     comm::GradBuckets::span_multiple(ranks_.size()));
  model_->set_recompute(config_.train.recompute);
}

void Trainer::build_update() {
  buckets_ = std::make_unique<comm::GradBuckets>(*communicator_, model_->parameters(), config_.train.shard_optimizer);
  optimizer_ = make_optimizer(config_.optim, buckets_->spans());
  sums_ = zeros({3}, DType::f64, Device::cpu, MemoryCategory::workspace);
  if (ranks_.is_root()) require_checkpoint_memory(config_, device());
  if (device() != Device::cuda) return;
  cuda::set_tf32(config_.train.tf32);
  cuda_step_ = std::make_unique<CudaStep>(
      *model_, *buckets_, *communicator_, *optimizer_,
      CudaStepOptions{.rows = config_.train.rows_per_micro_batch(),
                      .first_row = ranks_.rank() * config_.train.rows_per_rank(),
                      .seed = config_.train.seed,
                      .use_graph = config_.train.cuda_graph && !config_.train.detect_anomaly});
}

void Trainer::require_same_weights() const {
  if (ranks_.size() == 1) return;
  data::Checksum checksum;
  for (const nn::ParameterGroup& group : model_->parameters().groups()) {
    const Tensor here = (group.copies ? group.copies : group.weights).to(Device::cpu);
    checksum.update(here.ref().data, here.numel() * size_bytes(here.dtype()));
  }
  comm::require_same_on_all_ranks(ranks_, fmt::format("weights after step {}", step_),
                                  fmt::format("{:016x}", checksum.value()));
}

void Trainer::resume_at(int64_t step, int64_t optimizer_steps) {
  step_ = step;
  next_batches_.clear();
  optimizer_->restore_steps(optimizer_steps);
}

std::vector<data::Batch> Trainer::draw_batches(int64_t step) const {
  const int64_t rows = config_.train.rows_per_micro_batch(), own = config_.train.rows_per_rank();
  const int64_t begin = ranks_.rank() * own;
  std::vector<data::Batch> batches;
  for (int64_t first = begin; first < begin + own; first += rows) {
    batches.push_back(loader_->train_batch(static_cast<uint64_t>(step), first, rows));
  }
  return batches;
}

double Trainer::count_targets(const std::vector<data::Batch>& batches) const {
  int64_t targets = 0;
  for (const data::Batch& batch : batches) targets += counted_targets(batch);
  return static_cast<double>(targets);
}

// All ranks have the same sum, so all of them throw.
void Trainer::require_targets(double targets) const {
  if (targets > 0) return;
  comm::check_on_all_ranks(ranks_,
                           [&] { throw DataError(fmt::format("step {}: the batch has no targets", step_ + 1)); });
}

double Trainer::accumulate_gradients(const std::vector<data::Batch>& batches, const RunBackward& run_last) {
  const int64_t rows = config_.train.rows_per_micro_batch();
  const int64_t first_row = ranks_.rank() * config_.train.rows_per_rank();
  model_->parameters().zero_gradients();
  work_done("zero gradients");
  double loss_sum = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Shape shape{batches[i].rows, batches[i].seq_len};
    const nn::ForwardContext context{.training = true,
                                     .seed = config_.train.seed,
                                     .update = static_cast<uint64_t>(step_),
                                     .first_row = first_row + static_cast<int64_t>(i) * rows};
    const Tensor loss = model_->loss(from_tokens(shape, batches[i].inputs, device()),
                                     from_tokens(shape, batches[i].targets, device()), context, targets_);
    const bool is_last = i + 1 == batches.size();
    is_last ? run_last([&] { backward(loss); }) : backward(loss);
    loss_sum += loss.item();
  }
  return loss_sum;
}

Update Trainer::update(bool stop) {
  ranks_.set_update(step_ + 1);
  const AnomalyGuard anomaly(config_.train.detect_anomaly);
  return device() == Device::cuda ? update_on_cuda(stop) : update_here(stop);
}

Update Trainer::update_here(bool stop) {
  std::vector<data::Batch> batches;
  std::exception_ptr unreadable;
  try {
    batches = draw_batches(step_);
  } catch (const DataError&) {
    unreadable = std::current_exception();
  }
  double* const sums = sums_.data<double>();
  const auto add_over_ranks = [&](int64_t count) {
    communicator_->start_all_reduce(sums_.slice(0, {count}).ref());
    communicator_->wait();
  };
  sums[0] = count_targets(batches);
  sums[1] = unreadable ? 1 : 0;
  add_over_ranks(2);
  if (sums[1] > 0) {
    comm::check_on_all_ranks(ranks_, [&] {
      if (unreadable) std::rethrow_exception(unreadable);
    });
  }
  targets_ = sums[0];
  require_targets(targets_);
  work_done("batch");
  const double own_loss =
      accumulate_gradients(batches, [&](const std::function<void()>& run) { buckets_->last_backward(run); });
  buckets_->flush();
  communicator_->wait();
  if (ranks_.size() > 1) work_done("sums over ranks");
  const double squares = optim::sum_of_squares(buckets_->spans());
  sums[0] = own_loss;
  sums[1] = stop ? 1 : 0;
  sums[2] = squares;
  add_over_ranks(3);
  const double loss = sums[0], norm = std::sqrt(buckets_->sharded() ? sums[2] : squares);
  const bool must_stop = sums[1] > 0;
  work_done("gradient norm");
  if (!std::isfinite(loss) || !std::isfinite(norm)) report_divergence(loss, norm);
  const double learning_rate = optim::learning_rate(schedule_options(config_), step_);
  optimizer_->step(learning_rate, optim::clip_factor(norm, config_.optim.clip_norm));
  buckets_->all_gather_parameters();
  work_done("optimizer");
  ++step_;
  return {.step = step_,
          .targets = static_cast<int64_t>(targets_),
          .loss = loss,
          .learning_rate = learning_rate,
          .grad_norm = norm,
          .must_stop = must_stop};
}

void Trainer::draw_next_batches() {
  if (step_ + 1 >= config_.train.steps) return;
  try {
    next_batches_ = draw_batches(step_ + 1);
  } catch (const DataError&) {
    next_batches_.clear();  // the running step is still valid; the next step draws again, and then throws
  }
}

// The next batch is drawn while the device runs this step; then the host waits for the result. The device is idle only
// from the end of one step to the launch of the next, some ten microseconds.
Update Trainer::update_on_cuda(bool stop) {
  const std::vector<data::Batch> batches = next_batches_.empty() ? draw_batches(step_) : std::move(next_batches_);
  next_batches_.clear();
  const double learning_rate = optim::learning_rate(schedule_options(config_), step_);
  // NCCL connects the ranks in the first all-reduce, and may block for them in later ones.
  std::optional<comm::Waiting> waiting;
  waiting.emplace(ranks_, "the update of all ranks to start");
  cuda_step_->start({.learning_rate = learning_rate,
                     .clip_norm = config_.optim.clip_norm,
                     .optimizer_step = optimizer_->steps() + 1,
                     .update = static_cast<uint64_t>(step_),
                     .targets = count_targets(batches),
                     .must_stop = stop ? 1.0 : 0.0},
                    batches);
  waiting.reset();
  draw_next_batches();
  waiting.emplace(ranks_, "the update of all ranks");
  const optim::StepState done = cuda_step_->finish();
  waiting.reset();
  targets_ = done.targets;
  require_targets(targets_);
  if (done.is_finite == 0) report_divergence(done.loss, done.grad_norm);
  ++step_;
  return {.step = step_,
          .targets = static_cast<int64_t>(targets_),
          .loss = done.loss,
          .learning_rate = learning_rate,
          .grad_norm = done.grad_norm,
          .must_stop = done.must_stop > 0};
}

void Trainer::report_divergence(double loss, double grad_norm) {
  // A step is a pure function of its number, so running it again reproduces the NaN, on the rank that has its row.
  trace_divergence(
      fmt::format("diverged at step {} (loss {}, grad norm {})", step_ + 1, loss_text(loss), number_text(grad_norm)),
      [&] { accumulate_gradients(draw_batches(step_), [](const std::function<void()>& run) { run(); }); });
}

void Trainer::report_diverged_evaluation(data::Split split, int64_t max_batches, double loss) {
  trace_divergence(fmt::format("diverged after step {} ({} loss {})", step_,
                               split == data::Split::test ? "test" : "validation", loss_text(loss)),
                   [&] { evaluate_once(split, max_batches, {}); });
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
  } catch (const MemoryError& error) {
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

bool Trainer::reset_graph() const { return cuda_step_ != nullptr && cuda_step_->reset_graph(); }

Evaluation Trainer::evaluate(data::Split split, int64_t max_batches) const {
  return evaluate(split, max_batches, {}).value();
}

std::optional<Evaluation> Trainer::evaluate(data::Split split, int64_t max_batches,
                                            const EvaluationProgress& progress) const {
  try {
    return evaluate_once(split, max_batches, progress);
  } catch (const MemoryError&) {
    // The captured graph may hold the memory that is missing. With several ranks all of them would have to capture
    // again.
    if (ranks_.size() > 1 || !reset_graph()) throw;
  }
  return evaluate_once(split, max_batches, progress);
}

int64_t Trainer::eval_windows(data::Split split, int64_t max_batches) const {
  const int64_t all = loader_->num_eval_windows(split);
  return max_batches == 0 ? all : std::min(all, max_batches * loader_->batch_size());
}

std::optional<Evaluation> Trainer::evaluate_once(data::Split split, int64_t max_batches,
                                                 const EvaluationProgress& progress) const {
  return train::evaluate(*model_, *source_, *loader_, split, config_.train.rows_per_micro_batch(), max_batches, ranks_,
                         progress);
}

}  // namespace heed::train
