// What a model does on given sequences: its attention patterns and what each head contributes, the logit lens, the loss
// by position and by token, and the size of weights, activations and gradients.
//
// L layers of H heads, T tokens a sequence. Losses are means over the targets, in nats. No dropout. The model is not
// changed, but for the gradients of its parameters.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "train/inspect/head_scores.hpp"

namespace heed::train {

struct InspectedHead {
  HeadScores scores;  // means over the sequences
  HeadName name;
  // How much the loss rises if the head's output is replaced by its mean over all positions of all sequences: what the
  // part of its output that depends on the position contributes.
  double mean_ablation = 0;
};

// The embedding, a Transformer block, or the last norm and output head.
struct InspectedLayer {
  std::string name;
  // Of the parameters: their number, and the Euclidean norms of the weights and of the gradient of the loss.
  int64_t parameters = 0;
  double weight_norm = 0, gradient_norm = 0;
  // Of the residual stream after this layer, for the embedding and the blocks: its root mean square, and the loss of
  // the logit lens, which applies the last norm and the head to it.
  double residual_rms = 0, lens_loss = 0;
};

// One position of the first sequence.
struct InspectedToken {
  int32_t token = 0, target = 0;  // target: data::kIgnoreTarget if there is none
  double loss = 0;                // -ln p(target), 0 without a target
  std::vector<double> lens_loss;  // the same by the logit lens, after 0 … L blocks
  struct Prediction {
    int32_t token = 0;
    double probability = 0;
  };
  std::vector<Prediction> top;  // the most likely next tokens, at most kTop
  static constexpr int64_t kTop = 3;
};

struct Inspection {
  int64_t sequences = 0, targets = 0;
  double loss = 0;
  ScoreRange range;
  std::vector<std::vector<InspectedHead>> heads;  // (L, H)
  std::vector<InspectedLayer> layers;             // the embedding, L blocks, the head
  std::vector<double> position_loss;              // (T), the mean over the targets at each position, NaN without one
  std::vector<InspectedToken> tokens;             // of the first sequence, without padding
  Tensor patterns;  // (L, H, P, P), of the first P tokens of the first sequence, at most kMaxPatternTokens
  static constexpr int64_t kMaxPatternTokens = 256;
};

// sequences: at least one, of at most seq_len tokens each. lengths: the number of tokens of each that are no padding,
// at least 1; padding counts in nothing. separator: as in KeyKinds. Throws DataError if there is no target,
// DivergedError if the loss is not finite.
Inspection inspect(nn::Gpt& model, const data::Batch& sequences, std::span<const int64_t> lengths,
                   std::optional<int32_t> separator);

// The lengths of sequences that end with their last target; without a target 1.
std::vector<int64_t> lengths_by_targets(const data::Batch& sequences);

}  // namespace heed::train
