#include "train/run/run_header.hpp"

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/output/number_text.hpp"

namespace heed::train {
namespace {

std::string device_text(Device device) {
  return device == Device::cpu ? plural(cpu::max_threads(), "thread") : cuda::status().devices.at(0).name;
}

std::string model_line(const nn::GptConfig& m) {
  const std::string kv = m.kv_heads() == m.num_heads ? "" : fmt::format(" ({} kv)", m.kv_heads());
  const std::string vocabulary = m.vocab_size == 0 ? "" : fmt::format(", vocabulary {}", m.vocab_size);
  return fmt::format("model         {}, d_model {}, {}{}, d_ff {}, seq_len {}, {}-LN{}\n",
                     plural(m.num_layers, "layer"), m.d_model, plural(m.num_heads, "head"), kv, m.feed_forward_size(),
                     m.seq_len, m.norm_position == nn::NormPosition::pre ? "Pre" : "Post", vocabulary);
}

std::string batch_line(const Config& config, Device device) {
  const TrainConfig& t = config.train;
  // A line of a text may be shorter than seq_len; the rest of its row then has no targets.
  const bool is_exact = config.data.source != DataSource::text || config.data.split != data::TextSplit::lines;
  const std::string micro =
      t.rows_per_micro_batch() == t.rows_per_rank() ? "" : fmt::format(" (micro-batches of {})", t.micro_batch_size);
  const std::string stop = t.stop_after == 0 ? "" : fmt::format(" (stop after {})", t.stop_after);
  return fmt::format("batch         {}{} x {} = {}{}; {}{}; {}, {}\n", plural(t.batch_size, "sequence"), micro,
                     config.model.seq_len, is_exact ? "" : "up to ",
                     plural(t.batch_size * config.model.seq_len, "token"), plural(t.steps, "step"), stop,
                     name(t.precision), device_text(device));
}

std::string device_notices(const Config& config, Device device) {
  std::string text;
  if (device != Device::cpu) return text;
  if (config.train.device == DeviceChoice::automatic && !cuda::status().architectures.empty()) {
    text += config.train.precision == DType::f64
                ? "notice        running on the CPU: train.precision = \"f64\" is not for CUDA devices\n"
                : "notice        running on the CPU, no usable CUDA device (heed info says why)\n";
  }
  if (config.train.precision == DType::bf16 && !cpu::has_bf16_products()) {
    text += "notice        this processor has no bf16 instructions: GEMMs run in f32, slower than with f32 itself\n";
  }
  return text;
}

}  // namespace

std::string config_header(const Config& config, Device device) {
  std::string text = model_line(config.model) + batch_line(config, device);
  if (config.train.ranks > 1) {
    text += fmt::format("ranks         {} with {} each\n", config.train.ranks,
                        plural(config.train.rows_per_rank(), "sequence"));
  }
  return text + device_notices(config, device);
}

std::string trainer_header(const Trainer& trainer) {
  const nn::ParameterStore& store = trainer.model().parameters();
  const nn::ParameterGroup &decayed = store.groups()[0], &rest = store.groups()[1];
  std::string text =
      fmt::format("parameters    {}: {} in {} decayed (incl. embeddings), {} in {} not decayed\n", store.parameters(),
                  decayed.parameters, plural(decayed.tensors, "tensor"), rest.parameters, rest.tensors);
  if (trainer.ranks().size() > 1) {
    text += fmt::format("gradients     in {}{}\n", plural(static_cast<int64_t>(trainer.buckets().count()), "bucket"),
                        trainer.buckets().sharded() ? ", optimizer sharded" : "");
  }
  const auto entropies = trainer.source().entropies(trainer.config().model.seq_len);
  if (!entropies.empty()) {
    text += "entropies     of the source, in nats, by tokens of context:";
    for (const data::ContextEntropy& e : entropies) text += fmt::format("  {} {:.4f}", e.name, e.nats);
    text += "\n";
  }
  return text;
}

}  // namespace heed::train
