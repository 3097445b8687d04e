#include "train/commands/commands.hpp"

#include <algorithm>

#include "autograd/check/gradcheck.hpp"
#include "autograd/check/op_case.hpp"
#include "nn/gpt.hpp"
#include "train/config/model_variants.hpp"
#include "train/output/output.hpp"

namespace heed::train {
namespace {

constexpr double kInitStd = 0.3;  // large enough that every gradient is well above rounding error

struct Total {
  int64_t checked = 0;
  bool passed = true;
  GradcheckResult worst;

  void add(const GradcheckResult& result) {
    checked += result.checked;
    passed = passed && result.passed;
    if (worst.tensor.empty() || result.error > worst.error) worst = result;
  }
};

void print_total(const std::string& name, const Total& total) {
  print("{}  {:<34} {:>6} elements  worst error {:.1e}{}\n", total.passed ? "ok  " : "FAIL", name, total.checked,
        total.worst.error, total.passed ? "" : "  " + total.worst.text());
}

Total check_operation(const OpCase& op) {
  Total total;
  for (const OpSample& sample : op.samples) {
    if (!sample.check_gradients_by_differences) continue;
    Tensors inputs;
    std::vector<GradcheckTensor> tensors;
    for (const SampleInput& input : sample.inputs) {
      inputs.push_back(draw(input, DType::f64, 1));
      if (input.wants_gradient()) tensors.push_back({fmt::format("{} of {}", input.name, sample.label), inputs.back()});
    }
    total.add(gradcheck([&] { return sample.run(inputs); }, tensors));
  }
  return total;
}

Total check_gpt(const nn::GptConfig& config) {
  const nn::Gpt model(config, DType::f64);
  const Tensor batch_tokens =
      draw(tokens("tokens", {2, config.seq_len}, static_cast<int32_t>(config.vocab_size)), DType::f64, 1);
  const Tensor targets =
      draw(tokens("targets", {2, config.seq_len}, static_cast<int32_t>(config.vocab_size)), DType::f64, 1);
  std::vector<GradcheckTensor> tensors;
  for (const auto& entry : model.parameters().entries()) tensors.push_back({entry.name, entry.tensor});
  // Dropout is active: its masks are a function of the step number, so they are the same in every forward pass.
  const nn::ForwardContext context{.training = true, .seed = 1};
  Total total;
  total.add(gradcheck([&] { return model.loss(batch_tokens, targets, context); }, tensors, {.max_elements = 16}));
  return total;
}

// Pre- and Post-LN, each with MHA, GQA and MQA, with tied and untied embeddings; position encoding, activation, bias
// and dropout vary with these. Then RoPE of a part of the columns, and each other value of a key of the model, alone.
std::vector<std::pair<std::string, nn::GptConfig>> gpt_forms() {
  using nn::Activation;
  constexpr Activation activations[] = {Activation::gelu,  Activation::gelu_erf, Activation::silu,
                                        Activation::relu2, Activation::swiglu,   Activation::geglu};
  std::vector<std::pair<std::string, nn::GptConfig>> forms;
  for (const nn::NormPosition norm : {nn::NormPosition::pre, nn::NormPosition::post}) {
    for (const int64_t kv_heads : {4, 2, 1}) {
      for (const bool tied : {true, false}) {
        nn::GptConfig config{.vocab_size = 7, .num_layers = 2, .d_model = 12, .num_heads = 4};
        config.num_kv_heads = kv_heads;
        config.d_ff = 20;
        config.seq_len = 5;
        config.norm_position = norm;
        config.tie_embeddings = tied;
        config.position = tied ? nn::Position::learned : nn::Position::sinusoidal;
        config.bias = kv_heads != 2;
        config.dropout = config.attention_dropout = kv_heads == 2 ? 0.2 : 0.0;
        config.activation = activations[forms.size() % std::size(activations)];
        config.init_std = kInitStd;
        forms.emplace_back(fmt::format("gpt {}-LN {} {}", norm == nn::NormPosition::pre ? "Pre" : "Post",
                                       kv_heads == 4   ? "MHA"
                                       : kv_heads == 2 ? "GQA"
                                                       : "MQA",
                                       tied ? "tied" : "untied"),
                           config);
      }
    }
  }
  nn::GptConfig rotary = forms.front().second;
  rotary.position = nn::Position::rope;
  rotary.num_heads = 2;
  rotary.num_kv_heads = 1;
  rotary.rope_fraction = 0.667;
  rotary.logit_softcap = 2;
  forms.emplace_back("gpt RoPE, soft-capped", rotary);
  nn::GptConfig wide = forms.front().second;
  wide.mup_base_width = 5;
  forms.emplace_back("gpt muP", wide);
  const nn::GptConfig base{.vocab_size = 7,
                           .num_layers = 2,
                           .d_model = 16,
                           .num_heads = 4,
                           .num_kv_heads = 2,
                           .d_ff = 20,
                           .seq_len = 5,
                           .init_std = kInitStd};
  for (const auto& [name, config] : model_variants(base)) {
    // A finite difference over a kink of f or f' is no derivative.
    const bool has_kink = config.activation == nn::Activation::relu || config.activation == nn::Activation::relu2;
    if (!has_kink) forms.emplace_back("gpt " + name, config);
  }
  return forms;
}

void require_known(const std::vector<std::string>& names) {
  std::vector<std::string> known{"gpt"};
  for (const OpCase& op : op_cases()) known.push_back(op.name);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const std::string& name : names) {
    require<ConfigError>(std::find(known.begin(), known.end(), name) != known.end(),
                         "gradcheck: there is no operation '{}'; there are {}", name, list);
  }
}

}  // namespace

bool run_gradcheck(const std::vector<std::string>& names) {
  require_known(names);
  const auto wanted = [&](const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  int failed = 0, checks = 0;
  const auto count = [&](const std::string& name, const Total& total) {
    print_total(name, total);
    ++checks;
    if (!total.passed) ++failed;
  };
  for (const OpCase& op : op_cases()) {
    if (wanted(op.name)) count(op.name, check_operation(op));
  }
  if (wanted("gpt")) {
    for (const auto& [name, config] : gpt_forms()) count(name, check_gpt(config));
  }
  print("{} of {} passed (|analytic - numeric| / max(|a|, |n|, 1e-4 max|g|) <= 1e-6 in f64)\n", checks - failed,
        checks);
  return failed == 0;
}

}  // namespace heed::train
