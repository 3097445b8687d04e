// Whether two configs hold the same values, wherever these were given.
#pragma once

#include <tuple>

#include "train/config/config.hpp"

namespace heed::test {

// Structured bindings, so that a new member does not compile until it is compared, too.
inline auto values(const nn::GptConfig& config) {
  const auto& [vocab, layers, d_model, heads, kv_heads, d_ff, seq_len, norm, norm_gain, norm_position, qk_norm,
               embedding_norm, attention_only, norm_eps, activation, position, rope_fraction, rope_base, rope_scaling,
               rope_factor, rope_original, window, pattern, separator, dropout, attention_dropout, bias, tie, softcap,
               init_std, mup_base, zero_init, seed] = config;
  return std::tuple(vocab, layers, d_model, heads, kv_heads, d_ff, seq_len, norm, norm_gain, norm_position, qk_norm,
                    embedding_norm, attention_only, norm_eps, activation, position, rope_fraction, rope_base,
                    rope_scaling, rope_factor, rope_original, window, pattern, separator, dropout, attention_dropout,
                    bias, tie, softcap, init_std, mup_base, zero_init, seed);
}

inline auto values(const train::DataConfig& config) {
  const auto& [source, vocab_size, order, offsets, prefix, alpha, min_period, max_period, num_states, num_brackets,
               max_depth, modulus, digits, seed, source_seed, path, tokenizer, tokenizer_file, split, val, test,
               val_lines, test_lines, separator] = config;
  return std::tuple(source, vocab_size, order, offsets, prefix, alpha, min_period, max_period, num_states, num_brackets,
                    max_depth, modulus, digits, seed, source_seed, path, tokenizer, tokenizer_file, split, val, test,
                    val_lines, test_lines, separator);
}

inline auto values(const train::OptimConfig& config) {
  const auto& [optimizer, rate, min_rate, schedule, warmup, decay_steps, decay_shape, decay, momentum, muon_scale,
               adamw_rate, embedding, head, vector, beta1, beta2, eps, clip, ema] = config;
  return std::tuple(optimizer, rate, min_rate, schedule, warmup, decay_steps, decay_shape, decay, momentum, muon_scale,
                    adamw_rate, embedding, head, vector, beta1, beta2, eps, clip, ema);
}

inline auto values(const train::TrainConfig& config) {
  const auto& [steps, stop_after, batch, micro_batch, seed, device, cuda_graph, tf32, precision, recompute, anomaly,
               eval_interval, eval_batches, final_eval, log_interval, log_layers, save_interval, keep, run_dir,
               init_from, existing_run, tensorboard, plot, shard, timeout, ranks] = config;
  return std::tuple(steps, stop_after, batch, micro_batch, seed, device, cuda_graph, tf32, precision, recompute,
                    anomaly, eval_interval, eval_batches, final_eval, log_interval, log_layers, save_interval, keep,
                    run_dir, init_from, existing_run, tensorboard, plot, shard, timeout, ranks);
}

}  // namespace heed::test
