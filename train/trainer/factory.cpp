#include "train/trainer/factory.hpp"

#include "autograd/core/cuda_backend.hpp"
#include "data/synthetic/addition_dataset.hpp"
#include "data/synthetic/dyck_dataset.hpp"
#include "data/synthetic/hidden_markov_dataset.hpp"
#include "data/synthetic/markov_dataset.hpp"
#include "data/synthetic/markov_in_context_dataset.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "data/synthetic/repeat_dataset.hpp"
#include "data/synthetic/uniform_prefix_dataset.hpp"
#include "data/text_dataset.hpp"
#include "optim/adamw.hpp"
#include "optim/muon.hpp"
#include "optim/sgd.hpp"
#include "train/config/config_value.hpp"
#include "train/trainer/parameter_options.hpp"

namespace heed::train {
namespace {

std::unique_ptr<data::Dataset> make_markov_dataset(const DataConfig& c) {
  const bool is_uniform = c.prefix == SequencePrefix::uniform;
  if (c.source == DataSource::ngram) {
    const data::NgramConfig ngram{
        .order = c.order, .vocab_size = c.vocab_size, .alpha = c.alpha, .seed = c.seed, .source_seed = c.source_seed};
    if (is_uniform) return std::make_unique<data::UniformPrefixDataset>(ngram);
    return std::make_unique<data::NgramDataset>(ngram);
  }
  const data::SkipConfig skip{
      .offsets = c.offsets, .vocab_size = c.vocab_size, .alpha = c.alpha, .seed = c.seed, .source_seed = c.source_seed};
  if (is_uniform) return std::make_unique<data::UniformPrefixDataset>(skip);
  return std::make_unique<data::SkipDataset>(skip);
}

std::unique_ptr<data::Dataset> make_synthetic_dataset(const DataConfig& c) {
  switch (c.source) {
    case DataSource::markov_in_context:
      return std::make_unique<data::MarkovInContextDataset>(
          data::MarkovInContextConfig{.vocab_size = c.vocab_size, .alpha = c.alpha.at(0), .seed = c.seed});
    case DataSource::repeat:
      return std::make_unique<data::RepeatDataset>(data::RepeatConfig{
          .vocab_size = c.vocab_size, .min_period = c.min_period, .max_period = c.max_period, .seed = c.seed});
    case DataSource::hidden_markov:
      return std::make_unique<data::HiddenMarkovDataset>(data::HiddenMarkovConfig{.vocab_size = c.vocab_size,
                                                                                  .num_states = c.num_states,
                                                                                  .alpha = c.alpha,
                                                                                  .seed = c.seed,
                                                                                  .source_seed = c.source_seed});
    case DataSource::dyck:
      return std::make_unique<data::DyckDataset>(
          data::DyckConfig{.num_brackets = c.num_brackets, .max_depth = c.max_depth, .seed = c.seed});
    case DataSource::modular_addition:
      return std::make_unique<data::ModularAdditionDataset>(data::ModularAdditionConfig{
          .modulus = c.modulus, .val_fraction = c.val_fraction, .seed = c.seed, .source_seed = c.source_seed});
    case DataSource::addition:
      return std::make_unique<data::AdditionDataset>(data::AdditionConfig{
          .digits = c.digits, .val_fraction = c.val_fraction, .seed = c.seed, .source_seed = c.source_seed});
    default:
      return make_markov_dataset(c);
  }
}

}  // namespace

std::unique_ptr<data::Dataset> make_dataset(const Config& config, std::shared_ptr<const data::Tokenizer> tokenizer,
                                            const data::Progress& progress) {
  const DataConfig& c = config.data;
  // 0 lines means: split by the fraction.
  const auto lines = [](int64_t count) { return count == 0 ? std::nullopt : std::optional(count); };
  if (c.is_synthetic()) return make_synthetic_dataset(c);
  switch (c.source) {
    case DataSource::text:
      return data::make_text_dataset({.path = c.path,
                                      .tokenizer = c.tokenizer,
                                      .vocab_size = c.vocab_size,
                                      .tokenizer_file = c.tokenizer_file,
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
    default:
      throw ConfigError("data.source has no such value");
  }
}

void set_from_data(nn::GptConfig& model, const DataConfig& data, int64_t vocab_size, const data::Tokenizer* tokenizer) {
  model.vocab_size = vocab_size;
  if (data.document_separator.empty() || tokenizer == nullptr) return;
  const std::string named = fmt::format("data.document_separator = {}", quote(data.document_separator));
  std::vector<int32_t> tokens;
  try {
    tokens = tokenizer->encode(data.document_separator);
  } catch (const data::UnknownCharacterError& error) {
    throw ConfigError(fmt::format("{}: {}", named, error.what()));
  }
  require<ConfigError>(tokens.size() == 1, "{} is {} tokens, it must be one token of the data's tokenizer", named,
                       tokens.size());
  model.document_separator = tokens[0];
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

namespace {

std::unique_ptr<optim::Optimizer> make_plain_optimizer(const Config& config, const nn::ParameterStore& store,
                                                       comm::GradBuckets& buckets) {
  const OptimConfig& c = config.optim;
  if (c.optimizer == OptimizerKind::sgd) {
    return std::make_unique<optim::Sgd>(buckets.spans(),
                                        optim::SgdOptions{.momentum = c.momentum, .weight_decay = c.weight_decay});
  }
  const optim::AdamWOptions adamw{.beta1 = c.beta1, .beta2 = c.beta2, .eps = c.eps, .weight_decay = c.weight_decay};
  if (c.optimizer == OptimizerKind::adamw) return std::make_unique<optim::AdamW>(buckets.spans(), adamw);
  using Scale = optim::MuonOptions::Scale;
  const bool is_original = c.muon_scale == MuonScale::original;
  std::function<void()> gather;
  if (buckets.sharded()) gather = [&buckets] { buckets.all_gather_matrix_gradients(); };
  return std::make_unique<optim::Muon>(
      buckets.spans(), hidden_matrices(config.model, store),
      optim::MuonOptions{.momentum = c.momentum,
                         .weight_decay = c.weight_decay,
                         .scale = is_original ? Scale::original : Scale::match_rms_adamw,
                         .others = adamw,
                         .padding = comm::GradBuckets::span_multiple(static_cast<int>(config.train.ranks)) - 1},
      gather);
}

}  // namespace

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const nn::ParameterStore& store,
                                                 comm::GradBuckets& buckets) {
  std::unique_ptr<optim::Optimizer> optimizer = make_plain_optimizer(config, store, buckets);
  if (config.optim.ema_decay > 0) optimizer->average_weights(config.optim.ema_decay);
  return optimizer;
}

optim::ScheduleOptions schedule_options(const Config& config) {
  using Kind = optim::ScheduleOptions::Kind;
  using Decay = optim::ScheduleOptions::Decay;
  constexpr Kind kKinds[] = {Kind::cosine, Kind::linear, Kind::constant, Kind::wsd};
  constexpr Decay kDecays[] = {Decay::one_minus_sqrt, Decay::linear, Decay::cosine};
  return {.kind = kKinds[static_cast<size_t>(config.optim.schedule)],
          .peak = config.optim.learning_rate,
          .minimum = config.optim.min_learning_rate,
          .warmup_steps = config.optim.warmup_steps,
          .total_steps = config.train.steps,
          .decay_steps = config.optim.decay_steps,
          .decay = kDecays[static_cast<size_t>(config.optim.decay)]};
}

}  // namespace heed::train
