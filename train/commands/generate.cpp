#include "train/commands/generate.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/tape.hpp"
#include "data/text/tokenizer.hpp"
#include "train/commands/generate_output.hpp"
#include "train/config/config_value.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/output/output.hpp"
#include "train/run/past_step.hpp"

namespace heed::train {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Sequence {
  size_t prompt = 0;  // its index
  std::vector<int32_t> tokens;
  int64_t num_generated = 0;
};

// The number of tokens in the document of the last token: those after the last separator before it.
int64_t document_size(const std::vector<int32_t>& tokens, int32_t separator) {
  const auto begin = std::find(tokens.rbegin() + 1, tokens.rend(), separator);
  return begin - tokens.rbegin();
}

// The new tokens of all sequences, (B, T): the last one of each, or after cache.clear() all of its document that fit in
// the context, padded on the left.
Tensor fresh_tokens(const std::vector<Sequence>& batch, nn::KvCache& cache, int32_t separator, Device device) {
  // When the cache is full the context moves, and with it the position of each token, so all cached keys and values are
  // invalid; so they are if a new document begins.
  if (cache.length() == cache.capacity()) cache.clear();
  for (const Sequence& sequence : batch) {
    if (document_size(sequence.tokens, separator) == 1) cache.clear();
  }
  const auto context = [&](const Sequence& sequence) {
    return cache.length() > 0 ? 1 : std::min(document_size(sequence.tokens, separator), cache.capacity());
  };
  int64_t longest = 0;
  for (const Sequence& sequence : batch) longest = std::max(longest, context(sequence));
  std::vector<int32_t> tokens;
  std::vector<int64_t> padding;
  for (const Sequence& sequence : batch) {
    padding.push_back(longest - context(sequence));
    tokens.insert(tokens.end(), static_cast<size_t>(padding.back()), 0);
    tokens.insert(tokens.end(), sequence.tokens.end() - context(sequence), sequence.tokens.end());
  }
  if (cache.length() == 0) cache.clear(padding);
  return from_tokens({std::ssize(batch), longest}, tokens, device);
}

// Removes the sequences that are not in `kept`, which has ascending indices.
void keep(std::vector<Sequence>& batch, nn::KvCache& cache, const std::vector<int64_t>& kept) {
  if (kept.size() == batch.size()) return;
  if (!kept.empty()) cache.keep(kept);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (static_cast<size_t>(kept[i]) != i) batch[i] = std::move(batch[kept[i]]);
  }
  batch.resize(kept.size());
}

// The least cache that holds all prompts and what they are continued with, or the longest context of the model.
int64_t cache_capacity(const nn::GptConfig& model, const std::vector<Sequence>& batch, int64_t num_tokens) {
  int64_t longest = 0;
  for (const Sequence& sequence : batch) longest = std::max<int64_t>(longest, std::ssize(sequence.tokens));
  return model.is_unbounded() ? longest + num_tokens : std::min(model.seq_len, longest + num_tokens);
}

}  // namespace

GenerateStats generate(const LoadedModel& loaded, const std::vector<std::vector<int32_t>>& prompts,
                       const GenerateOptions& options, int64_t sample_number, const TokenReceiver& receiver) {
  const NoGradGuard no_grad;
  const nn::Gpt& model = *loaded.model;
  const std::optional<int32_t> end = loaded.tokenizer ? loaded.tokenizer->end_token() : std::nullopt;
  const RandomStream random{
      .seed = options.seed, .site = random_site(RandomDomain::sampling), .step = static_cast<uint64_t>(sample_number)};
  GenerateStats stats;
  std::vector<Sequence> batch;
  for (const std::vector<int32_t>& tokens : prompts) {
    stats.prompt_tokens += std::ssize(tokens);
    batch.push_back({.prompt = batch.size(), .tokens = tokens});
  }
  nn::KvCache cache(model.config(), std::ssize(batch), cache_capacity(model.config(), batch, options.num_tokens));
  // Returns false if the sequence has ended.
  const auto add_token = [&](Sequence& sequence, std::span<double> logits) {
    penalize(logits, options.sampler, sequence.tokens, sequence.num_generated);
    const int32_t token = sample(logits, options.sampler, random, static_cast<uint64_t>(sequence.num_generated));
    const auto& stops = options.stop_tokens;
    if ((end && token == *end) || std::find(stops.begin(), stops.end(), token) != stops.end()) return false;
    sequence.tokens.push_back(token);
    ++sequence.num_generated;
    return receiver.token(sequence.prompt, token) && sequence.num_generated < options.num_tokens;
  };
  const auto vocab_size = static_cast<size_t>(model.config().vocab_size);
  // An imported model may have more tokens than its tokenizer: those are never sampled.
  const size_t known = loaded.tokenizer ? std::min<size_t>(loaded.tokenizer->vocab_size(), vocab_size) : vocab_size;
  const double start = seconds_now();
  for (int64_t i = 0; !batch.empty() && options.num_tokens > 0; ++i) {
    const Tensor tokens = fresh_tokens(batch, cache, model.config().document_separator, model.parameters().device());
    std::vector<double> logits = model.next_logits(tokens, cache).values();
    if (i == 0) {
      stats.cache = cache.describe();
      stats.prompt_seconds = seconds_now() - start;
    }
    if (i > 0) stats.new_tokens += std::ssize(batch);
    std::vector<int64_t> kept;
    for (size_t b = 0; b < batch.size(); ++b) {
      if (add_token(batch[b], std::span(logits).subspan(b * vocab_size, known))) {
        kept.push_back(static_cast<int64_t>(b));
      } else {
        receiver.end(batch[b].prompt);
      }
    }
    keep(batch, cache, kept);
  }
  for (const Sequence& sequence : batch) receiver.end(sequence.prompt);
  stats.seconds = seconds_now() - start - stats.prompt_seconds;
  return stats;
}

namespace {

void check(const GenerateOptions& options, const LoadedModel& loaded) {
  require<ConfigError>(options.stop_texts.empty() || loaded.tokenizer != nullptr,
                       "generate: --stop needs a model with a tokenizer, this one works on token ids: use "
                       "--stop-token");
  for (const std::string& stop : options.stop_texts) {
    require<ConfigError>(!stop.empty(), "generate: --stop is \"\", it must be a text that is not empty");
  }
  for (const int32_t stop : options.stop_tokens) {
    require<ConfigError>(stop < loaded.model->config().vocab_size,
                         "generate: --stop-token is {}, it must be below {}, the vocabulary size", stop,
                         loaded.model->config().vocab_size);
  }
}

// The lines of a text, without their line feeds; nothing after the last one.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> prompt_texts(const GenerateOptions& options) {
  if (!options.prompts_file.empty()) {
    constexpr const char* kOption = "generate: --prompts-file";
    std::vector<std::string> lines = lines_of(read_text_argument(options.prompts_file, kOption));
    require<DataError>(!lines.empty(), "{}: there is no line, and so no prompt", kOption);
    return lines;
  }
  if (!options.prompt_file.empty()) return {read_text_argument(options.prompt_file, "generate: --prompt-file")};
  return options.prompts.empty() ? std::vector<std::string>{""} : options.prompts;
}

std::vector<Prompt> make_prompts(const GenerateOptions& options, const LoadedModel& loaded) {
  const std::vector<std::string> texts = prompt_texts(options);
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string what = texts.size() == 1 ? "generate: the prompt" : fmt::format("generate: prompt {}", i + 1);
    try {
      prompts.push_back(make_prompt(loaded, texts[i], options.skip_unknown, what));
    } catch (const data::UnknownCharacterError& error) {
      throw DataError(fmt::format("{}, or pass --skip-unknown", error.what()));
    }
  }
  return prompts;
}

void print_stats(const GenerateStats& stats) {
  const auto rate = [](int64_t tokens, double seconds) { return static_cast<double>(tokens) / seconds; };
  write_notice(fmt::format(
      "KV cache: {}; prompt: {} tokens in {:.3g} s, {:.4g} tokens/s; then {} tokens in {:.3g} s, "
      "{:.4g} tokens/s\n",
      stats.cache, stats.prompt_tokens, stats.prompt_seconds, rate(stats.prompt_tokens, stats.prompt_seconds),
      stats.new_tokens, stats.seconds, rate(stats.new_tokens, stats.seconds)));
}

}  // namespace

void run_generate(const GenerateOptions& options) {
  check(options.sampler);
  require<ConfigError>(options.num_tokens >= 0, "--tokens is {}, it must not be negative", options.num_tokens);
  require<ConfigError>(options.num_samples >= 1, "--num-samples is {}, it must be at least 1", options.num_samples);
  const NamedCheckpoint checkpoint = load_named_checkpoint(options.checkpoint, read_pretrained);
  const LoadedModel loaded = load_model(checkpoint.content, {}, options.weights);
  check(options, loaded);
  const std::vector<Prompt> prompts = make_prompts(options, loaded);
  // To stderr: stdout has the text only.
  if (checkpoint.name != options.checkpoint)
    write_notice(fmt::format("{}, step {}{}\n", quote(checkpoint.name), loaded.step, weights_text(options.weights)));
  std::vector<std::vector<int32_t>> tokens;
  for (const Prompt& prompt : prompts) tokens.push_back(prompt.tokens);
  for (int64_t n = 0; n < options.num_samples; ++n) {
    GenerateOutput output(loaded.tokenizer.get(), prompts, options, n);
    const GenerateStats stats =
        generate(loaded, tokens, options, n,
                 {.token = [&](size_t prompt, int32_t token) { return output.push(prompt, token); },
                  .end = [&](size_t prompt) { output.end(prompt); }});
    if (options.stats) print_stats(stats);
  }
}

}  // namespace heed::train
