// A language model with a custom block: attention and feed-forward read the same LayerNorm and run in parallel, as in
// GPT-J. It learns to copy: of seven random tokens twice in a row, it predicts the second seven.
#include <fmt/core.h>

#include <random>

#include "autograd/autograd.hpp"
#include "nn/block.hpp"
#include "optim/adamw.hpp"

using namespace heed;

// y = x + attention(norm(x)) + feed_forward(norm(x)), x (B, T, C)
class ParallelBlock {
 public:
  ParallelBlock(nn::ParameterStore& store, const std::string& name, const nn::GptConfig& config, int64_t layer)
      : norm_(store, name + ".norm", config),
        attention_(store, name + ".attention", config, layer),
        feed_forward_(store, name + ".feed_forward", config) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor normed = norm_(x);
    return x + attention_(normed, {}) + feed_forward_(normed);
  }

 private:
  nn::Norm norm_;
  nn::Attention attention_;
  nn::FeedForward feed_forward_;
};

class Model {
 public:
  explicit Model(const nn::GptConfig& config)
      : tokens_(store_.declare("tokens", {config.vocab_size, config.d_model}, {.std = config.init_std})),
        positions_(store_.declare("positions", {config.seq_len, config.d_model}, {.std = config.init_std})) {
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      blocks_.emplace_back(store_, fmt::format("blocks.{}", layer), config, layer);
    }
    store_.build(config.seed);
  }
  // tokens: i32 (B, T) -> logits (B, T, V)
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = add_positions(embedding(tokens_.tensor(), tokens), positions_.tensor());
    for (const ParallelBlock& block : blocks_) x = block(x);
    return linear(x, tokens_.tensor(), Tensor());  // tied embeddings
  }
  std::vector<Tensor> parameters() const { return store_.leaves(); }

 private:
  nn::ParameterStore store_{DType::f32};
  nn::Parameter tokens_, positions_;
  std::vector<ParallelBlock> blocks_;
};

int main() {
  constexpr int64_t kLength = 7, kSequence = 2 * kLength - 1, kBatch = 32, kSteps = 150;
  const nn::GptConfig config{.vocab_size = 10, .num_layers = 2, .d_model = 32, .num_heads = 2, .seq_len = kSequence};
  const Model model(config);
  optim::AdamW optimizer(optim::spans_of(model.parameters()), {});
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(config.vocab_size) - 1);

  for (int64_t step = 1; step <= kSteps; ++step) {
    std::vector<int32_t> tokens, targets;
    for (int64_t row = 0; row < kBatch; ++row) {
      std::vector<int32_t> sequence(2 * kLength);
      for (int64_t i = 0; i < kLength; ++i) sequence[i] = sequence[i + kLength] = token(random);
      tokens.insert(tokens.end(), sequence.begin(), sequence.end() - 1);
      std::fill_n(sequence.begin(), kLength, -1);  // ignored: nothing predicts the first tokens
      targets.insert(targets.end(), sequence.begin() + 1, sequence.end());
    }
    const Shape shape{kBatch, kSequence};
    const Tensor loss = cross_entropy(model(from_tokens(shape, tokens)), from_tokens(shape, targets));
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(5e-3);
    if (step % 30 == 0) fmt::print("step {:3}  loss {:.4f}\n", step, loss.item());
  }
}
