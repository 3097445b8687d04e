// `heed generate`: generates text from a checkpoint, one sampled token after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/commands/prompt.hpp"
#include "train/commands/sampler.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {

struct GenerateOptions {
  std::string checkpoint = {};            // a .h5 file, or a run folder, of which last.h5 is used
  std::vector<std::string> prompts = {};  // texts; token ids separated by spaces if the model has no tokenizer
  std::string prompt_file = {};           // a file with one prompt, byte for byte; "-": stdin; empty: none
  std::string prompts_file = {};          // a file with a prompt in each line; "-": stdin; empty: none
  bool skip_unknown = false;              // drop characters of the prompt that have no token
  int64_t num_tokens = 200;               // maximum number of new tokens per prompt
  int64_t num_samples = 1;                // of each prompt
  uint32_t seed = 1;
  SamplerOptions sampler = {};
  std::vector<std::string> stop_texts = {};  // a text ends before the first of them
  std::vector<int32_t> stop_tokens = {};     // and before these tokens
  bool stats = false;                        // print the size of the KV cache and the speed to stderr
  EvaluatedWeights weights = EvaluatedWeights::last;
};

// Who receives the tokens of a batch.
struct TokenReceiver {
  // A new token of a prompt. Returns false if the sequence ends after it.
  std::function<bool(size_t prompt, int32_t token)> token;
  // The sequence of this prompt has ended.
  std::function<void(size_t prompt)> end;
};

struct GenerateStats {
  std::string cache;  // KvCache::describe()
  // Of all prompts: the tokens of the prompts, in the forward pass that gives the first new token of each; and the
  // further new tokens.
  int64_t prompt_tokens = 0, new_tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

// Continues all prompts as one batch, each until num_tokens, the end token or a stop token, which are not passed on,
// or until the receiver ends it; it then leaves the batch. The context is the last seq_len tokens, at positions from 0;
// with GptConfig::is_unbounded() it is all tokens. While all tokens fit the context, the forward pass for a new token
// has one row for each sequence (KV cache). After that each new token shifts the positions of all others, and the
// forward pass has seq_len rows. Sample number `sample` has its own random stream, the same for each prompt: in
// a batch, a prompt gets the text that it gets alone, up to rounding.
GenerateStats generate(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                       const GenerateOptions& options, int64_t sample, const TokenReceiver& receiver);

// Prints the samples to stdout, each followed by a line feed: the prompt as decoded from its tokens, then the generated
// text, which is valid UTF-8 at any time. The text of the first prompt is printed token by token, that of the others
// once those before have ended. If a text may have several lines and there is more than one, each begins with a line
// "──── sample 2 of 3 ────" or "──── prompt 1 of 2 ────". Throws what loading the checkpoint throws, ConfigError for
// options that do not fit the model, and DataError for a prompt file that cannot be read.
void run_generate(const GenerateOptions& options);

}  // namespace heed::train
