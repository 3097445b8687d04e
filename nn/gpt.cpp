#include "nn/gpt.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/ops/dropout.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/tape.hpp"
#include "nn/rope_table.hpp"

namespace heed::nn {
namespace {

void check(const GptConfig& c) {
  require<ConfigError>(c.vocab_size >= 1 && c.num_layers >= 1 && c.d_model >= 1 && c.seq_len >= 1,
                       "Gpt: each of these must be at least 1: vocab_size {}, num_layers {}, d_model {}, seq_len {}",
                       c.vocab_size, c.num_layers, c.d_model, c.seq_len);
  require<ConfigError>(c.num_heads >= 1 && c.d_model % c.num_heads == 0,
                       "Gpt: d_model = {} is not a multiple of num_heads = {}: change one of them", c.d_model,
                       c.num_heads);
  require<ConfigError>(c.kv_heads() >= 1 && c.num_heads % c.kv_heads() == 0,
                       "Gpt: num_heads = {} is not a multiple of num_kv_heads = {}: change one of them", c.num_heads,
                       c.kv_heads());
  require<ConfigError>(c.sliding_window >= 0, "Gpt: sliding_window = {}, it must be at least 1, or 0 for none",
                       c.sliding_window);
  require<ConfigError>(!c.window_pattern.empty() && c.window_pattern.find_first_not_of("SL") == std::string::npos,
                       "Gpt: window_pattern = \"{}\", it must be letters S (sliding window) and L (all keys)",
                       c.window_pattern);
  require<ConfigError>(c.position != Position::rope || c.rope_columns() >= 2,
                       "Gpt: rope_fraction = {} of the head size {} must be an even number of columns", c.rope_fraction,
                       c.head_size());
}

// tokens (B, T) -> columns [first, first + count) of it. values: those of tokens, if B is above 1.
Tensor columns_of(const Tensor& tokens, const std::vector<double>& values, int64_t first, int64_t count) {
  const int64_t batch = tokens.shape()[0], all = tokens.shape()[1];
  if (count == all) return tokens;
  if (batch == 1) return tokens.slice(first, {1, count});
  std::vector<int32_t> part;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = first; t < first + count; ++t) part.push_back(static_cast<int32_t>(values[b * all + t]));
  }
  return from_tokens({batch, count}, part, tokens.device());
}

// x (B, T, C) -> the last token of each sequence (B, C)
Tensor last_tokens(const Tensor& x) {
  const int64_t batch = x.shape()[0], count = x.shape()[1], width = x.shape()[2];
  if (count == 1) return x.slice(0, {batch, width});
  if (batch == 1) return x.slice((count - 1) * width, {1, width});
  std::vector<int32_t> rows;
  for (int64_t b = 0; b < batch; ++b) rows.push_back(static_cast<int32_t>((b + 1) * count - 1));
  return embedding(x.slice(0, {batch * count, width}), from_tokens({batch}, rows, x.device()));
}

}  // namespace

Tensor sinusoidal_positions(int64_t rows, int64_t width, DType dtype) {
  std::vector<double> values;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      const double exponent = static_cast<double>(j - j % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
      values.push_back(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return from_values({rows, width}, dtype, values);
}

Gpt::Gpt(const GptConfig& config, DType dtype, Device device, int64_t span_multiple, InitialWeights weights)
    : config_(config), store_(dtype, device) {
  check(config);
  const Init init{.std = config.init_std};
  token_embedding_ = store_.declare("token_embedding.weight", {config.vocab_size, config.d_model}, init);
  if (config.position == Position::learned) {
    position_embedding_ = store_.declare("position_embedding.weight", {config.seq_len, config.d_model}, init);
  }
  if (config.embedding_norm) embedding_norm_ = std::make_unique<Norm>(store_, "embedding_norm", config);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    blocks_.emplace_back(store_, fmt::format("blocks.{}", layer), config, layer);
  }
  if (config.has_last_norm()) {
    last_norm_ = std::make_unique<Norm>(store_, "last_norm", config);
  }
  if (!config.tie_embeddings) head_ = store_.declare("head.weight", {config.vocab_size, config.d_model}, init);
  if (weights == InitialWeights::none) return;
  store_.build(weights == InitialWeights::drawn ? std::optional(config.seed) : std::nullopt, span_multiple);
  if (config.position == Position::sinusoidal) {
    sinusoids_ = PositionTable(config.seq_len, [width = config.d_model, dtype, device](int64_t rows) {
      return sinusoidal_positions(rows, width, dtype).to(device);
    });
  }
  if (config.position == Position::rope) {
    rotations_ = PositionTable(
        config.seq_len, [config, dtype, device](int64_t rows) { return rope_table(config, rows, dtype, device); });
  }
}

Tensor Gpt::with_positions(const Tensor& x, const ForwardContext& context) const {
  const int64_t batch = x.shape()[0], count = x.shape()[1], width = config_.d_model;
  const int64_t first = context.first_position();
  const Tensor& all =
      config_.position == Position::learned ? position_embedding_.tensor() : sinusoids_.rows(first + count);
  if (!all) return x;
  if (context.documents.positions) return add(x, embedding(all, context.documents.positions));
  if (context.cache == nullptr || context.cache->padding().empty()) {
    // slice() has no gradient, which is fine: with a cache there is no graph.
    return add_positions(x, first == 0 ? all : all.slice(first * width, {all.shape()[0] - first, width}));
  }
  std::vector<int32_t> ids;
  for (const int64_t padding : context.cache->padding()) {
    for (int64_t t = 0; t < count; ++t) {
      ids.push_back(static_cast<int32_t>(std::max<int64_t>(0, first + t - padding)));
    }
  }
  return add(x, embedding(all, from_tokens({batch, count}, ids, x.device())));
}

Tensor Gpt::embed(const Tensor& tokens, const ForwardContext& context) const {
  const NameScope scope("embedding");
  Tensor x = with_positions(embedding(token_embedding_.tensor(), tokens), context);
  if (embedding_norm_ != nullptr) x = (*embedding_norm_)(x);
  return dropout(x, context.training ? config_.dropout : 0.0, context.random(0, DropoutPlace::embedding),
                 context.first_row * tokens.shape()[1]);
}

Tensor Gpt::residual_stream(const Tensor& tokens, const ForwardContext& context) const {
  require<GraphError>(context.cache == nullptr, "logits of all positions need no cache: call next_logits with it");
  require<ShapeError>(tokens.rank() == 2 && tokens.shape()[1] <= config_.max_positions(),
                      "tokens have shape {}, they must be (batch, at most {})", tokens.shape(),
                      config_.max_positions());
  ForwardContext whole = context;
  if (config_.document_separator >= 0 && !context.documents.begin)
    whole.documents = document_ranges(tokens, config_.document_separator);
  return run_blocks(embed(tokens, whole), whole);
}

Tensor Gpt::logits(const Tensor& tokens, const ForwardContext& context) const {
  return head(residual_stream(tokens, context));
}

Tensor Gpt::next_logits(const Tensor& tokens, KvCache& cache, int64_t chunk) const {
  require<GraphError>(!grad_enabled(), "next_logits keeps no graph: call it under NoGradGuard");
  const int64_t count = tokens.rank() == 2 ? tokens.shape()[1] : 0, batch = cache.batch();
  const int64_t room = std::min(cache.capacity(), config_.max_positions()) - cache.length();
  require<ShapeError>(count >= 1 && tokens.shape()[0] == batch && count <= room && chunk >= 1,
                      "tokens have shape {}, after {} cached tokens it must be ({}, 1 to {}), in chunks of at least 1",
                      tokens.shape(), cache.length(), batch, room);
  for (const int64_t padding : cache.padding()) {
    require<ShapeError>(padding < cache.length() + count, "{} tokens of a sequence are all padding: it needs a token",
                        padding);
  }
  Tensor x;
  chunk = std::min(chunk, cache.max_fresh());
  const std::vector<double> values = batch > 1 && count > chunk ? tokens.values() : std::vector<double>();
  for (int64_t first = 0; first < count; first += chunk) {
    const Tensor part = columns_of(tokens, values, first, std::min(chunk, count - first));
    x = run_blocks(embed(part, {.cache = &cache}), {.cache = &cache});
    cache.advance(part.shape()[1]);
  }
  return head(last_tokens(x));
}

Tensor Gpt::run_blocks(Tensor x, const ForwardContext& given) const {
  ForwardContext context = given;
  context.rope_table = rotations_.rows(given.first_position() + x.shape()[1]);
  const auto show = [&](int64_t blocks) {
    if (context.hook != nullptr) context.hook->residual(blocks, x);
  };
  show(0);
  int64_t done = 0;
  for (const Block& block : blocks_) {
    // Captures the context by value, since the closure lives until backward.
    x = recompute_ ? recompute([&block, context](const std::vector<Tensor>& in) { return block(in[0], context); }, {x})
                   : block(x, context);
    show(++done);
  }
  return x;
}

const Tensor& Gpt::head_weight() const { return config_.tie_embeddings ? token_embedding_.tensor() : head_.tensor(); }

Tensor Gpt::head_input(const Tensor& x) const {
  const NameScope scope("head");
  const Tensor input = last_norm_ != nullptr ? (*last_norm_)(x) : x;
  // muP scales the input, which is smaller than the logits.
  const double multiplier = config_.width_multiplier();
  return multiplier != 1 ? scale(input, 1 / multiplier) : input;
}

Tensor Gpt::head(const Tensor& x) const {
  const Tensor input = head_input(x);
  const NameScope scope("head");
  const Tensor logits = linear(input, head_weight(), Tensor());
  return config_.logit_softcap > 0 ? softcap(logits, config_.logit_softcap) : logits;
}

LinearCrossEntropyOptions Gpt::loss_options(DeviceScalar<double> denominator) const {
  return {.cross_entropy = {.denominator = denominator}, .softcap = config_.logit_softcap};
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
                 DeviceScalar<double> denominator) const {
  const Tensor x = head_input(residual_stream(tokens, context));
  const NameScope scope("head");
  return linear_cross_entropy(x, head_weight(), targets, loss_options(denominator));
}

Tensor Gpt::loss_and_backward(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
                              DeviceScalar<double> denominator) const {
  Tensor x = head_input(residual_stream(tokens, context));
  const NameScope scope("head");
  return linear_cross_entropy_and_backward(std::move(x), head_weight(), targets, loss_options(denominator));
}

Tensor Gpt::losses(const Tensor& tokens, const Tensor& targets, const ForwardContext& context) const {
  LinearCrossEntropyOptions options = loss_options(0);
  options.losses = empty(targets.shape(), DType::f64, targets.device());
  const Tensor x = head_input(residual_stream(tokens, context));
  const NameScope scope("head");
  linear_cross_entropy(x, head_weight(), targets, options);
  return options.losses;
}

ParameterCount count_parameters(const GptConfig& config) {
  GptConfig one_block = config;  // all blocks have the same parameters
  one_block.num_layers = 1;
  const Gpt gpt(one_block, DType::f32, Device::cpu, ParameterStore::kAlignment, InitialWeights::none);
  ParameterCount count;
  for (const ParameterStore::Entry& entry : gpt.parameters().entries()) {
    const bool in_block = entry.name.starts_with("blocks.");
    const int64_t times = in_block ? config.num_layers : 1;
    const double weights = static_cast<double>(times) * static_cast<double>(entry.shape.numel());
    (entry.group == 0 ? count.matrices : count.vectors) += weights;
    if (in_block && entry.group == 0) count.hidden += weights;
  }
  return count;
}

FlopsPerToken flops_per_token(const GptConfig& config) {
  const double head = static_cast<double>(config.vocab_size) * static_cast<double>(config.d_model);
  const double width = static_cast<double>(config.num_layers) * static_cast<double>(config.d_model);
  return {.weights = 6 * (count_parameters(config).hidden + head), .attention = 12 * width * config.mean_keys()};
}

}  // namespace heed::nn
