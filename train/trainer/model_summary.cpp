#include "train/trainer/model_summary.hpp"

#include "nn/kv_cache.hpp"
#include "train/output/number_text.hpp"
#include "train/trainer/factory.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {

std::string model_summary(const Config& config) {
  nn::GptConfig model = config.model;
  model.vocab_size = least_vocab_size(config);
  const nn::ParameterCount count = nn::count_parameters(model);
  const nn::FlopsPerToken flops = nn::flops_per_token(model);
  const double step_tokens = static_cast<double>(config.train.batch_size) * static_cast<double>(model.seq_len);
  std::string text;
  if (model.vocab_size == 1) text += "vocabulary    size unknown before the data is read; counted as 1 token here\n";
  text += fmt::format(
      "parameters    {:.0f}: {:.0f} in block matrices, {:.0f} in embeddings and head, {:.0f} gains and biases\n",
      count.all(), count.hidden, count.matrices - count.hidden, count.vectors);
  text += fmt::format("FLOPs/token   {:.4g} in weights + {:.4g} in attention, forward and backward\n", flops.weights,
                      flops.attention);
  text += fmt::format("step          {:.0f} tokens, {:.4g} FLOPs\n", step_tokens, step_tokens * flops.all());
  text += fmt::format("KV cache      {} for {} tokens\n",
                      human_bytes(nn::kv_cache_bytes(model, config.train.precision)), model.seq_len);
  // Of the device in the config, also if this machine has none.
  const bool is_cuda = config.train.device == DeviceChoice::cuda;
  return text + memory_table(estimate_memory(config, is_cuda ? Device::cuda : choose_device(config)));
}

}  // namespace heed::train
