#include "train/trainer/factory.hpp"

#include "autograd/core/cuda_backend.hpp"
#include "data/synthetic/markov_dataset.hpp"
#include "data/text_dataset.hpp"
#include "optim/adamw.hpp"
#include "optim/sgd.hpp"

namespace heed::train {

std::unique_ptr<data::Dataset> make_dataset(const Config& config, std::shared_ptr<const data::Tokenizer> tokenizer,
                                            const data::Progress& progress) {
  const DataConfig& c = config.data;
  // 0 lines means: split by the fraction.
  const auto lines = [](int64_t count) { return count == 0 ? std::nullopt : std::optional(count); };
  switch (c.source) {
    case DataSource::ngram:
      return std::make_unique<data::NgramDataset>(data::NgramConfig{.order = c.order,
                                                                    .vocab_size = c.vocab_size,
                                                                    .alpha = c.alpha,
                                                                    .seed = c.seed,
                                                                    .source_seed = c.source_seed});
    case DataSource::skip:
      return std::make_unique<data::SkipDataset>(data::SkipConfig{.offsets = c.offsets,
                                                                  .vocab_size = c.vocab_size,
                                                                  .alpha = c.alpha,
                                                                  .seed = c.seed,
                                                                  .source_seed = c.source_seed});
    case DataSource::text:
      return data::make_text_dataset({.path = c.path,
                                      .tokenizer = c.tokenizer,
                                      .vocab_size = c.vocab_size,
                                      .split = c.split,
                                      .parts = {.val_fraction = c.val_fraction,
                                                .test_fraction = c.test_fraction,
                                                .val_lines = lines(c.val_lines),
                                                .test_lines = lines(c.test_lines)},
                                      .seed = c.seed,
                                      .split_seed = c.source_seed,
                                      .seq_len = config.model.seq_len,
                                      .known_tokenizer = std::move(tokenizer)},
                                     progress);
    case DataSource::tokens:
      return data::make_token_dataset({.path = c.path, .seed = c.seed, .seq_len = config.model.seq_len});
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

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimConfig& c, const std::vector<optim::ParameterSpan>& spans) {
  if (c.optimizer == OptimizerKind::sgd) {
    return std::make_unique<optim::Sgd>(spans, optim::SgdOptions{.weight_decay = c.weight_decay});
  }
  return std::make_unique<optim::AdamW>(
      spans, optim::AdamWOptions{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps, .weight_decay = c.weight_decay});
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

}  // namespace heed::train
