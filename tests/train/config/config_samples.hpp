// What the tests of the config share: every key once, with a value that is not its default.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autograd/core/check.hpp"
#include "train/config/config.hpp"

namespace heed::train {

inline constexpr const char* kNgram = "[data]\nsource = \"ngram\"\n";

struct KeySample {
  std::string table, name;
  std::string value;                       // as in a file
  std::vector<std::string> partners = {};  // `table.key=value` that it needs to have an effect
  std::string path() const { return table.empty() ? name : table + "." + name; }
};

inline const std::vector<KeySample>& key_samples() {
  static const std::vector<KeySample> samples = {
      {"", "seed", "3"},
      {"model", "num_layers", "3"},
      {"model", "d_model", "96"},
      {"model", "num_heads", "8"},
      {"model", "num_kv_heads", "2"},
      {"model", "attention_only", "true"},
      {"model", "d_ff", "100"},
      {"model", "seq_len", "17"},
      {"model", "norm", "\"rms\""},
      {"model", "norm_gain", "false"},
      {"model", "norm_position", "\"post\""},
      {"model", "qk_norm", "true"},
      {"model", "embedding_norm", "true"},
      {"model", "norm_eps", "0.001"},
      {"model", "activation", "\"relu\""},
      {"model", "position", "\"sinusoidal\""},
      {"model", "rope_base", "500000.0", {"model.position=rope"}},
      {"model", "rope_fraction", "0.25", {"model.position=rope"}},
      {"model", "rope_scaling", "\"llama3\"", {"model.position=rope", "model.rope_scaling_factor=8"}},
      {"model", "rope_scaling_factor", "4.0", {"model.position=rope", "model.rope_scaling=linear"}},
      {"model",
       "rope_original_seq_len",
       "32",
       {"model.position=rope", "model.rope_scaling=llama3", "model.rope_scaling_factor=8"}},
      {"model", "sliding_window", "4"},
      {"model", "window_pattern", "\"SSL\"", {"model.sliding_window=4"}},
      {"model", "dropout", "0.1"},
      {"model", "attention_dropout", "0.25"},
      {"model", "bias", "false"},
      {"model", "tie_embeddings", "false"},
      {"model", "logit_softcap", "30.0"},
      {"model", "init_std", "0.03"},
      {"model", "mup_base_width", "64"},
      {"model", "zero_init_projections", "true"},
      {"model", "seed", "4294967295"},
      {"data", "source", "\"ngram\""},
      {"data", "vocab_size", "5"},
      {"data", "order", "2"},
      {"data", "offsets", "[1, 4]", {"data.source=skip"}},
      {"data", "prefix", "\"uniform\""},
      {"data", "alpha", "[3.5, 2.0, 1e-05]"},
      {"data", "min_period", "3", {"data.source=repeat"}},
      {"data", "max_period", "31", {"data.source=repeat"}},
      {"data", "num_states", "7", {"data.source=hidden_markov"}},
      {"data", "num_brackets", "2", {"data.source=dyck"}},
      {"data", "max_depth", "5", {"data.source=dyck"}},
      {"data", "modulus", "11", {"data.source=modular_addition", "model.seq_len=3"}},
      {"data", "digits", "2", {"data.source=addition", "model.seq_len=8"}},
      {"data", "seed", "0"},
      {"data", "source_seed", "7"},
      {"data", "path", "\"text.txt\"", {"data.source=text"}},
      {"data", "tokenizer", "\"byte\"", {"data.source=text", "data.path=text.txt"}},
      {"data",
       "tokenizer_file",
       "\"tokenizer.json\"",
       {"data.source=text", "data.path=text.txt", "data.tokenizer=file"}},
      {"data", "split", "\"lines\"", {"data.source=text", "data.path=text.txt"}},
      {"data", "val_fraction", "0.2", {"data.source=text", "data.path=text.txt"}},
      {"data", "test_fraction", "0.3", {"data.source=text", "data.path=text.txt"}},
      {"data", "val_lines", "10", {"data.source=text", "data.path=text.txt", "data.split=lines"}},
      {"data", "test_lines", "20", {"data.source=text", "data.path=text.txt", "data.split=lines"}},
      {"data", "document_separator", "\"\\u000A\"", {"data.source=text", "data.path=text.txt"}},
      {"optim", "optimizer", "\"sgd\""},
      {"optim", "learning_rate", "0.0123"},
      {"optim", "min_learning_rate", "1e-05"},
      {"optim", "schedule", "\"linear\""},
      {"optim", "warmup_steps", "7"},
      {"optim", "decay_steps", "11", {"optim.schedule=wsd"}},
      {"optim", "decay", "\"cosine\"", {"optim.schedule=wsd"}},
      {"optim", "weight_decay", "0.01"},
      {"optim", "momentum", "0.7", {"optim.optimizer=sgd"}},
      {"optim", "muon_scale", "\"original\"", {"optim.optimizer=muon"}},
      {"optim", "adamw_learning_rate", "0.02", {"optim.optimizer=muon"}},
      {"optim", "embedding_lr_scale", "3.5"},
      {"optim", "head_lr_scale", "0.5", {"model.tie_embeddings=false"}},
      {"optim", "vector_lr_scale", "2.0"},
      {"optim", "beta1", "0.8"},
      {"optim", "beta2", "0.999"},
      {"optim", "eps", "1e-06"},
      {"optim", "clip_norm", "0.5"},
      {"optim", "ema_decay", "0.99"},
      {"train", "steps", "20"},
      {"train", "stop_after", "15"},
      {"train", "batch_size", "12"},
      {"train", "micro_batch_size", "4"},
      {"train", "seed", "9"},
      {"train", "device", "\"cpu\""},
      {"train", "cuda_graph", "false"},
      {"train", "tf32", "true"},
      {"train", "precision", "\"f64\""},
      {"train", "recompute", "true"},
      {"train", "detect_anomaly", "true"},
      {"train", "shard_optimizer", "true"},
      {"train", "comm_timeout_s", "12.5"},
      {"train", "eval_interval", "11"},
      {"train", "eval_batches", "6"},
      {"train", "final_eval", "\"none\""},
      {"train", "log_interval", "13"},
      {"train", "log_layers", "true"},
      {"train", "run_dir", "\"runs/x\""},
      {"train", "init_from", "\"runs/y\""},
      {"train", "existing_run", "\"refuse\""},
      {"train", "plot", "false"},
      {"train", "save_interval", "14"},
      {"train", "keep_checkpoints", "3"},
      {"train", "tensorboard", "true"},
  };
  return samples;
}

// The text of the error, which must be one; "" (and a failure) if there is none.
inline std::string config_error(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "tiny.toml", overrides);
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text << ::testing::PrintToString(overrides);
  return "";
}

inline void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
  }
}

// A file with one key besides the source, and an override with it.
inline std::string file_with(const std::string& table, const std::string& line) {
  if (table.empty()) return line + "\n" + kNgram;
  return table == "data" ? kNgram + line + "\n" : kNgram + ("[" + table + "]\n") + line + "\n";
}

}  // namespace heed::train
