#include "nn/gpt.hpp"

#include <cmath>

#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/tape.hpp"

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
}

}  // namespace

Tensor sinusoidal_positions(int64_t seq_len, int64_t width, DType dtype) {
  std::vector<double> values;
  for (int64_t t = 0; t < seq_len; ++t) {
    for (int64_t j = 0; j < width; ++j) {
      const double exponent = static_cast<double>(j - j % 2) / static_cast<double>(width);
      const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
      values.push_back(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return from_values({seq_len, width}, dtype, values);
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
    sinusoids_ = sinusoidal_positions(config.seq_len, config.d_model, dtype).to(device);
  }
}

Tensor Gpt::embed(const Tensor& tokens, const ForwardContext& context) const {
  const NameScope scope("embedding");
  Tensor x = embedding(token_embedding_.tensor(), tokens);
  if (config_.position != Position::none) {
    const Tensor& all = config_.position == Position::learned ? position_embedding_.tensor() : sinusoids_;
    const int64_t first = context.first_position(), width = config_.d_model;
    // slice() has no gradient, which is fine: with a cache there is no graph.
    x = add_positions(x, first == 0 ? all : all.slice(first * width, {config_.seq_len - first, width}));
  }
  if (embedding_norm_ != nullptr) x = (*embedding_norm_)(x);
  return dropout(x, context.training ? config_.dropout : 0.0, context.random(0, DropoutPlace::embedding),
                 context.first_row * tokens.shape()[1]);
}

Tensor Gpt::logits(const Tensor& tokens, const ForwardContext& context) const {
  require<GraphError>(context.cache == nullptr, "logits of all positions need no cache: call next_logits with it");
  require<ShapeError>(tokens.rank() == 2 && tokens.shape()[1] <= config_.seq_len,
                      "tokens have shape {}, they must be (batch, at most {})", tokens.shape(), config_.seq_len);
  return head(run_blocks(embed(tokens, context), context));
}

Tensor Gpt::next_logits(const Tensor& tokens, KvCache& cache) const {
  require<GraphError>(!grad_enabled(), "next_logits keeps no graph: call it under NoGradGuard");
  const int64_t count = tokens.rank() == 2 ? tokens.shape()[1] : 0;
  require<ShapeError>(count >= 1 && tokens.shape()[0] == 1 && cache.length() + count <= config_.seq_len,
                      "tokens have shape {}, after {} cached tokens it must be (1, 1 to {})", tokens.shape(),
                      cache.length(), config_.seq_len - cache.length());
  const Tensor x = run_blocks(embed(tokens, {.cache = &cache}), {.cache = &cache});
  cache.advance(count);
  return head(x.slice((count - 1) * config_.d_model, {1, config_.d_model}));
}

Tensor Gpt::run_blocks(Tensor x, const ForwardContext& context) const {
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

Tensor Gpt::head(const Tensor& x) const {
  const NameScope scope("head");
  const Tensor& weight = config_.tie_embeddings ? token_embedding_.tensor() : head_.tensor();
  return linear(last_norm_ != nullptr ? (*last_norm_)(x) : x, weight, Tensor());
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
                 DeviceScalar<double> denominator) const {
  return cross_entropy(logits(tokens, context), targets, {.denominator = denominator});
}

int64_t Gpt::gemm_weights() const {
  int64_t weights = config_.vocab_size * config_.d_model;  // the head
  for (const ParameterStore::Entry& entry : store_.entries()) {
    if (entry.shape.rank() == 2 && entry.name.starts_with("blocks.")) weights += entry.shape.numel();
  }
  return weights;
}

ParameterCount count_parameters(const GptConfig& config) {
  GptConfig one_block = config;  // all blocks have the same parameters
  one_block.num_layers = 1;
  const Gpt gpt(one_block, DType::f32, Device::cpu, ParameterStore::kAlignment, InitialWeights::none);
  ParameterCount count;
  for (const ParameterStore::Entry& entry : gpt.parameters().entries()) {
    const int64_t times = entry.name.starts_with("blocks.") ? config.num_layers : 1;
    (entry.group == 0 ? count.matrices : count.vectors) +=
        static_cast<double>(times) * static_cast<double>(entry.shape.numel());
  }
  return count;
}

}  // namespace heed::nn
