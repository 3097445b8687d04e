// A source of windows from one stationary Markov chain, with everything about it known exactly.
//
// Every training window is fresh: its random numbers are those of (seed, update = step, row). The evaluation windows of
// a split are drawn at a site of their own, so evaluation never shares numbers with training; they hold at least
// kMinEvalTargets targets.
#pragma once

#include "data/markov_chain.hpp"
#include "data/source.hpp"

namespace heed::data {

// What a chain with random rows is made of.
struct MarkovConfig {
  int64_t vocab_size = 0;
  std::vector<int64_t> offsets;  // tokens back that the next one depends on; the rows' hierarchy follows their order
  std::vector<double> alpha;     // concentration of each level (see hierarchical_dirichlet_rows), unigram first
  uint32_t seed = 0;
  std::string depth;  // the config key and value that set the offsets, for error texts: "data.order = 3"
};

class MarkovSource : public Source {
 public:
  static constexpr int64_t kMinEvalTargets = 100'000;

  // Throws ConfigError naming the key, DataError where the drawn chain has no usable stationary law.
  explicit MarkovSource(const MarkovConfig& config);

  int64_t vocab_size() const override { return chain_.vocab_size(); }
  void train_window(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_windows(Split split, int64_t seq_len) const override;
  void eval_window(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  std::optional<double> log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const override;
  std::vector<ContextEntropy> entropies(int64_t seq_len) const override;

  const MarkovChain& chain() const { return chain_; }

 private:
  void fill_window(const RandomStream& stream, int64_t row, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const;

  MarkovChain chain_;
  uint32_t seed_;
};

}  // namespace heed::data
