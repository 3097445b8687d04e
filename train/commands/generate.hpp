// `heed generate`: generates text from a checkpoint, one sampled token after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "autograd/core/philox.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

struct SamplerOptions {
  double temperature = 1.0;  // 0: argmax, with the lowest id among equal logits and without a random number
  int64_t top_k = 0;         // keep only the k largest logits; 0: all
  double top_p = 1.0;        // nucleus sampling: keep only the largest probabilities that together reach p
};

// Throws ConfigError naming the option: temperature finite and >= 0, top_k >= 0, 0 < top_p <= 1.
void check(const SamplerOptions& options);

// Samples from softmax(logits / temperature), truncated by top_k, then by top_p, with the uniform number `index` of the
// random stream. Throws DivergedError if a logit is NaN or +Inf, or all are -Inf.
int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index);

struct GenerateOptions {
  std::string checkpoint = {};   // a .h5 file, or a run folder, of which last.h5 is used
  std::string prompt = {};       // text; token ids separated by spaces if the model has no tokenizer
  std::string prompt_file = {};  // file with the prompt, byte for byte; "-": stdin; empty: `prompt` is used
  bool skip_unknown = false;     // drop characters of the prompt that have no token
  int64_t num_tokens = 200;      // maximum number of new tokens per sample
  int64_t num_samples = 1;
  uint32_t seed = 1;
  SamplerOptions sampler = {};
};

struct Prompt {
  std::vector<int32_t> tokens;
  int64_t num_given = 0;  // the last tokens, which encode the text; printed before what is generated
};

// If lines are sequences, the prompt begins with the end token. If it is empty otherwise, it is the start token
// (data/text/tokenizer.hpp), or id 0 without a tokenizer. Neither is printed. Throws DataError for a character without
// a token, with the character and its position.
// what: the text in messages, "inspect: --text".
Prompt make_prompt(const LoadedModel& loaded, const std::string& text, bool skip_unknown,
                   const std::string& what = "generate: the prompt");

// Calls emit(token) for each new token, until num_tokens or the end token, which is not emitted. The context of the
// model is the last seq_len tokens at most, at positions from 0. While there are at most seq_len tokens in all, the
// forward pass for a new token has one row (KV cache). After that every position moves with each token, and the pass
// has seq_len rows. Sample number `sample` has its own random stream.
void generate(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options, int64_t sample,
              const std::function<void(int32_t)>& emit);

// Prints the samples to stdout as they are generated, each followed by a line feed: the prompt as decoded from its
// tokens, then the generated text, which is valid UTF-8 at any time. If a sample may have several lines and there is
// more than one sample, each begins with a line "──── sample 2 of 3 ────". Throws what loading the checkpoint throws,
// and DataError for a prompt file that cannot be read.
void run_generate(const GenerateOptions& options);

}  // namespace heed::train
