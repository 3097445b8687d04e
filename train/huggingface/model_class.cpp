#include "train/huggingface/model_class.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

using nn::Activation, nn::GptConfig, nn::NormKind, nn::NormPosition, nn::Position;

// Collects the keys whose values a class does not support.
class Unsupported {
 public:
  void unless(bool fits, std::string_view key, std::string_view value) {
    if (!fits) found_.push_back(fmt::format("model.{} = {}", key, value));
  }
  void unless_text(bool fits, std::string_view key, std::string_view value) {
    if (!fits) found_.push_back(fmt::format("model.{} = \"{}\"", key, value));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

std::string_view flag(bool on) { return on ? "true" : "false"; }

bool has_activation(const ModelClass& one, const GptConfig& model) {
  if (model.attention_only) return true;  // the weights of the MLP are 0
  if (one.is_gated != model.is_gated()) return false;
  return one.activations.empty() ||
         std::find(one.activations.begin(), one.activations.end(), model.activation) != one.activations.end();
}

bool has_positions(const ModelClass& one, Position position) {
  switch (one.positions) {
    case ClassPositions::absolute:
      return position == Position::learned || position == Position::sinusoidal || position == Position::none;
    case ClassPositions::rope:
      return position == Position::rope || (position == Position::none && one.has_rope_scaling);
    case ClassPositions::alibi:
      return position == Position::alibi;
  }
  return false;
}

bool windows_fit(const ModelClass& one, const GptConfig& model) {
  if (model.sliding_window == 0 || one.windows == ClassWindows::by_layer) return true;
  const bool all_layers = model.window_pattern.find('L') == std::string::npos;
  return one.windows == ClassWindows::same_in_all_layers && all_layers;
}

bool biases_fit(const ModelClass& one, const GptConfig& model) {
  if (!model.bias) return true;
  const bool norm = model.norm == NormKind::rms || !model.norm_gain || one.has_norm_bias;
  return norm && one.has_qkv_bias && one.has_projection_bias && (model.attention_only || one.has_mlp_bias);
}

}  // namespace

std::vector<std::string> unsupported_settings(const ModelClass& one, const GptConfig& model) {
  Unsupported found;
  const bool is_rope = model.position == Position::rope;
  found.unless_text(one.norm == model.norm, "norm", text(model.norm));
  found.unless_text(one.norm_position == model.norm_position, "norm_position", text(model.norm_position));
  found.unless(one.has_norm_gain || !model.norm_gain, "norm_gain", "true");
  found.unless(one.fixed_norm_eps == 0 || one.fixed_norm_eps == model.norm_eps, "norm_eps",
               fmt::format("{}", model.norm_eps));
  found.unless(one.has_qk_norm == model.qk_norm, "qk_norm", flag(model.qk_norm));
  found.unless(one.has_embedding_norm == model.embedding_norm, "embedding_norm", flag(model.embedding_norm));
  // The MLP of zeros leaves the stream as it is, but not the norm after it.
  found.unless(!model.attention_only || one.norm_position != NormPosition::post, "attention_only", "true");
  found.unless_text(has_activation(one, model), "activation", text(model.activation));
  found.unless(!one.has_fixed_d_ff || model.attention_only || model.feed_forward_size() <= 4 * model.d_model, "d_ff",
               fmt::format("{}", model.feed_forward_size()));
  found.unless_text(has_positions(one, model.position), "position", text(model.position));
  found.unless(!is_rope || model.rope_fraction == 1 || one.has_rope_fraction, "rope_fraction",
               fmt::format("{}", model.rope_fraction));
  found.unless_text(!is_rope || model.rope_scaling == nn::RopeScaling::none || one.has_rope_scaling, "rope_scaling",
                    model.rope_scaling == nn::RopeScaling::linear ? "linear" : "llama3");
  found.unless(windows_fit(one, model), "sliding_window",
               fmt::format("{} with window_pattern = \"{}\"", model.sliding_window, model.window_pattern));
  found.unless(biases_fit(one, model), "bias", "true");
  found.unless(model.logit_softcap == 0 || one.has_softcap, "logit_softcap", fmt::format("{}", model.logit_softcap));
  // The scale of the scores is moved into the queries, or into the gain of their norm.
  found.unless(model.mup_base_width == 0 || !one.has_qk_norm || one.has_norm_gain, "mup_base_width",
               fmt::format("{}", model.mup_base_width));
  return found.take();
}

const ModelClass& choose_model_class(const GptConfig& model) {
  const ModelClass* nearest = nullptr;
  std::vector<std::string> fewest;
  for (const ModelClass& one : model_classes()) {
    std::vector<std::string> found = unsupported_settings(one, model);
    if (found.empty()) return one;
    if (nearest == nullptr || found.size() < fewest.size()) {
      nearest = &one;
      fewest = std::move(found);
    }
  }
  throw ConfigError(fmt::format(
      "no model class of transformers computes this model; the closest, {}, does not support {}. To export a "
      "model, train it without",
      nearest->model_type, fmt::join(fewest, ", ")));
}

const ModelClass* find_model_class(std::string_view model_type) {
  const auto classes = model_classes();
  const auto found =
      std::find_if(classes.begin(), classes.end(), [&](const ModelClass& one) { return one.model_type == model_type; });
  return found == classes.end() ? nullptr : &*found;
}

int64_t class_d_ff(const ModelClass& one, const GptConfig& model) {
  if (one.has_fixed_d_ff) return 4 * model.d_model;
  return model.attention_only ? 1 : model.feed_forward_size();
}

std::string_view text(NormKind kind) { return kind == NormKind::layer ? "layer" : "rms"; }

std::string_view text(NormPosition position) {
  return position == NormPosition::pre ? "pre" : position == NormPosition::post ? "post" : "sandwich";
}

std::string_view text(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::relu:
      return "relu";
    case Activation::relu2:
      return "relu2";
    case Activation::silu:
      return "silu";
    case Activation::swiglu:
      return "swiglu";
    case Activation::geglu:
      return "geglu";
  }
  return "";
}

std::string_view text(Position position) {
  switch (position) {
    case Position::learned:
      return "learned";
    case Position::sinusoidal:
      return "sinusoidal";
    case Position::rope:
      return "rope";
    case Position::alibi:
      return "alibi";
    case Position::none:
      return "none";
  }
  return "";
}

}  // namespace heed::train
