#include "train/trainer/first_loss.hpp"

#include <cmath>

namespace heed::train {
namespace {

// A lower bound of E[f(z)^2] for z ~ N(0, variance). GELU, SiLU and ReLU are z times a gate, and the gates of z and -z
// add up to 1, so that f(z)^2 + f(-z)^2 >= z^2 / 2. ReLU^2 gives E[z^4] / 2; a gate multiplies two units.
double mean_square(const nn::GptConfig& model, double variance) {
  if (model.zero_init_projections) return 0;  // the MLPs have no output yet
  if (model.activation == nn::Activation::relu2) return 1.5 * variance * variance;
  return model.is_gated() ? variance * variance / 4 : variance / 4;
}

}  // namespace

// With s = init_std, d = d_model and h the output of the last LayerNorm (|h| = sqrt(d)), token v has the logit h · w_v.
//
//   any token             Its logit ~ N(0, sigma^2) with sigma = s sqrt(d): E[ln sum exp] <= ln V + sigma^2 / 2. If h
//                         is nearly the same at all positions, the mean over a batch varies by a few sigma.
//   the input token       If the head is tied to the embedding, w_v = e_v is still part of the residual stream x, which
//                         raises its logit by sqrt(d) |e_v|^2 / |x|. Without positions and sublayers, x = e_v and the
//                         raise is s d. Under Pre-LN the MLPs, whose outputs add up in x, lower it: their hidden units
//                         have the variance d s^2; with m = E[f(z)^2] the 2 L projections of std s / sqrt(2 L) yield
//                         |x|^2 >= d s^2 (1 + d_ff m / 2). Under Post-LN each sublayer adds little to a stream that is
//                         normalized again. With a sandwich each MLP adds |norm|^2 = d. With a norm of the embedding,
//                         |e_v|^2 in x is d instead of d s^2, and the raise is less the less the MLPs weigh next to it.
//   muP                   Divides the logits, and s^2 of the matrices in the blocks, by width_multiplier().
//
// With a raised logit of the input token, the loss is ln(e^raise + V - 1) if that token is never the target, and less
// by `raise` if it always is.
LossRange first_loss_range(const nn::GptConfig& model) {
  constexpr double kSigmas = 3;
  const double std = nn::GptConfig{}.init_std;
  const auto width = static_cast<double>(model.d_model), hidden = static_cast<double>(model.feed_forward_size());
  const double m = model.width_multiplier(), hidden_variance = std * std / m;
  const double own = model.embedding_norm ? width : width * std * std;
  double added = 0;
  if (model.norm_position == nn::NormPosition::pre) {
    added = width * hidden_variance * hidden * mean_square(model, width * hidden_variance) / 2;
  } else if (model.norm_position == nn::NormPosition::sandwich && !model.zero_init_projections) {
    added = static_cast<double>(model.num_layers) * width;
  }
  if (model.attention_only) added = 0;
  const double raise = model.tie_embeddings ? std * width / std::sqrt(1 + added / own) / m : 0;
  const double sigma = std * std::sqrt(width) / m;
  // Computes ln(e^raise + V - 1) without overflow.
  const double base = raise + std::log1p(static_cast<double>(model.vocab_size - 1) * std::exp(-raise));
  return {.lowest = base - raise - kSigmas * sigma, .highest = base + sigma * sigma / 2 + kSigmas * sigma};
}

}  // namespace heed::train
