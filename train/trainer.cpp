#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/tape.hpp"
#include "data/ngram_source.hpp"
#include "data/skip_source.hpp"
#include "data/text_source.hpp"
#include "data/token_source.hpp"
#include "optim/adamw.hpp"
#include "optim/grad_clip.hpp"
#include "optim/sgd.hpp"

namespace heed::train {
namespace {

int64_t counted_targets(const data::Batch& batch) {
  return static_cast<int64_t>(batch.targets.size()) -
         std::count(batch.targets.begin(), batch.targets.end(), data::kIgnoreTarget);
}

std::vector<optim::ParameterSpan> spans_of(const nn::ParameterStore& store) {
  std::vector<optim::ParameterSpan> spans;
  for (const nn::ParameterGroup& group : store.groups()) {
    spans.push_back({.weights = group.weights, .gradients = group.gradients, .decay = group.decay});
  }
  return spans;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimConfig& c, const std::vector<optim::ParameterSpan>& spans) {
  if (c.optimizer == OptimizerKind::sgd) {
    return std::make_unique<optim::Sgd>(spans, optim::SgdOptions{.weight_decay = c.weight_decay});
  }
  return std::make_unique<optim::AdamW>(
      spans, optim::AdamWOptions{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps, .weight_decay = c.weight_decay});
}

// Turns anomaly mode on and back to what it was.
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

std::unique_ptr<data::Source> make_source(const Config& config) {
  const DataConfig& c = config.data;
  // 0 lines stand for "by the fraction".
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
                                     .seq_len = config.model.seq_len});
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

Trainer::Trainer(const Config& config) : config_(config), source_(make_source(config)) {
  config_.model.vocab_size = source_->vocab_size();
  loader_ = std::make_unique<data::BatchLoader>(*source_, config_.model.seq_len, config_.train.batch_size);
  model_ = std::make_unique<nn::Gpt>(config_.model, config_.train.precision, choose_device(config_));
  model_->set_recompute(config_.train.recompute);
  spans_ = spans_of(model_->parameters());
  optimizer_ = make_optimizer(config_.optim, spans_);
  if (device() == Device::cuda) {
    cuda::set_tf32(config_.train.tf32);
    device_update_ = std::make_unique<DeviceUpdate>(
        *model_, spans_, *optimizer_,
        DeviceUpdateOptions{.rows = config_.train.rows_per_micro_batch(),
                            .seed = config_.train.seed,
                            .use_graph = config_.train.cuda_graph && !config_.train.detect_anomaly});
  }
}

void Trainer::resume_at(int64_t step, int64_t optimizer_steps) {
  step_ = step;
  next_batches_.clear();
  optimizer_->restore_steps(optimizer_steps);
}

std::vector<data::Batch> Trainer::draw_batches(int64_t step) const {
  const int64_t rows = config_.train.rows_per_micro_batch();
  std::vector<data::Batch> batches;
  for (int64_t first = 0; first < config_.train.batch_size; first += rows) {
    batches.push_back(loader_->train_batch(static_cast<uint64_t>(step), first, rows));
  }
  return batches;
}

void Trainer::count_targets(const std::vector<data::Batch>& batches) {
  targets_ = 0;
  for (const data::Batch& batch : batches) targets_ += counted_targets(batch);
  require<DataError>(targets_ > 0, "update {}: the batch has no targets", step_ + 1);
}

double Trainer::accumulate_gradients() {
  const int64_t rows = config_.train.rows_per_micro_batch();
  const std::vector<data::Batch> batches = draw_batches(step_);
  count_targets(batches);
  work_done("batch");
  model_->parameters().zero_gradients();
  work_done("zero gradients");
  double loss_sum = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Shape shape{batches[i].rows, batches[i].seq_len};
    const nn::ForwardContext context{.training = true,
                                     .seed = config_.train.seed,
                                     .update = static_cast<uint64_t>(step_),
                                     .first_row = static_cast<int64_t>(i) * rows};
    const Tensor loss =
        model_->loss(from_tokens(shape, batches[i].inputs, device()), from_tokens(shape, batches[i].targets, device()),
                     context, static_cast<double>(targets_));
    backward(loss);
    loss_sum += loss.item();
  }
  return loss_sum;
}

Update Trainer::update() {
  const AnomalyGuard anomaly(config_.train.detect_anomaly);
  return device() == Device::cuda ? update_on_cuda() : update_here();
}

Update Trainer::update_here() {
  const double loss = accumulate_gradients();
  const double norm = optim::global_norm(spans_);
  work_done("gradient norm");
  if (!std::isfinite(loss) || !std::isfinite(norm)) report_divergence(loss, norm);
  const double learning_rate = optim::learning_rate(schedule_options(config_), step_);
  optimizer_->step(learning_rate, optim::clip_factor(norm, config_.optim.clip_norm));
  model_->parameters().update_copies();
  work_done("optimizer");
  ++step_;
  return {.step = step_, .targets = targets_, .loss = loss, .learning_rate = learning_rate, .grad_norm = norm};
}

// The next batch is drawn while the device is at work, and then the result is waited for: what that leaves unused is
// the time from the end of one update to the start of the next, some ten microseconds.
Update Trainer::update_on_cuda() {
  const std::vector<data::Batch> batches = next_batches_.empty() ? draw_batches(step_) : std::move(next_batches_);
  next_batches_.clear();
  count_targets(batches);
  const double learning_rate = optim::learning_rate(schedule_options(config_), step_);
  device_update_->start({.learning_rate = learning_rate,
                         .clip_norm = config_.optim.clip_norm,
                         .targets = static_cast<double>(targets_),
                         .optimizer_step = optimizer_->steps() + 1,
                         .update = static_cast<uint64_t>(step_)},
                        batches);
  next_batches_ = draw_batches(step_ + 1);
  const optim::UpdateNumbers done = device_update_->finish();
  if (done.is_finite == 0) report_divergence(done.loss, done.grad_norm);
  ++step_;
  return {.step = step_,
          .targets = targets_,
          .loss = done.loss,
          .learning_rate = learning_rate,
          .grad_norm = done.grad_norm};
}

void Trainer::report_divergence(double loss, double grad_norm) {
  const std::string what = fmt::format("update {}: loss {}, gradient norm {}", step_ + 1, loss, grad_norm);
  const char* advice = "lower optim.learning_rate, raise optim.warmup_steps or set optim.clip_norm";
  try {
    // The update is a pure function of its number, so running it again meets the same NaN.
    const AnomalyGuard anomaly(true);
    accumulate_gradients();
  } catch (const DivergedError& error) {
    throw DivergedError(fmt::format("{}; {}; {}", what, error.what(), advice));
  }
  throw DivergedError(fmt::format("{}; each gradient is finite, only their norm is not; {}", what, advice));
}

Evaluation Trainer::evaluate(data::Split split, int64_t max_batches) const {
  return train::evaluate(*model_, *source_, *loader_, split, config_.train.rows_per_micro_batch(), max_batches);
}

}  // namespace heed::train
