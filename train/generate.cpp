#include "train/generate.hpp"

#include <algorithm>
#include <charconv>

#include "autograd/tape.hpp"
#include "data/stream_decoder.hpp"
#include "train/checkpoint_file.hpp"
#include "train/output.hpp"

namespace heed::train {
namespace {

std::vector<int32_t> parse_ids(const std::string& text, int64_t vocab_size) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    require<DataError>(
        error == std::errc() && id >= 0 && id < vocab_size && (next == end || *next == ' '),
        "generate: the model has no tokenizer, so --prompt must be token ids below {} with spaces between, "
        "not '{}'",
        vocab_size, text);
    ids.push_back(id);
    at = next;
  }
  return ids;
}

// cache: what the call for one token less has left, or an empty one.
std::vector<double> next_logits(const nn::Gpt& model, const std::vector<int32_t>& tokens, nn::KvCache& cache) {
  // Behind seq_len tokens the window moves, and with it the position of each token: nothing that was kept still holds.
  if (cache.length() == cache.capacity()) cache.clear();
  const int64_t window = std::min<int64_t>(static_cast<int64_t>(tokens.size()), cache.capacity());
  const int64_t fresh = window - cache.length();
  return model
      .next_logits(from_tokens({1, fresh}, {tokens.end() - fresh, tokens.end()}, model.parameters().device()), cache)
      .values();
}

}  // namespace

std::vector<int32_t> prompt_tokens(const LoadedModel& loaded, const GenerateOptions& options) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  std::vector<int32_t> tokens;
  if (tokenizer == nullptr) {
    tokens = parse_ids(options.prompt, loaded.model->config().vocab_size);
    if (tokens.empty()) tokens.push_back(0);
    return tokens;
  }
  const auto unknown = options.skip_unknown ? data::Unknown::skip : data::Unknown::refuse;
  // Where lines are sequences, each begins with the end token of the one before.
  if (tokenizer->end_token()) tokens.push_back(*tokenizer->end_token());
  try {
    const std::vector<int32_t> encoded = tokenizer->encode(options.prompt, unknown);
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  } catch (const DataError& error) {
    throw DataError(fmt::format("generate: --prompt: {}; --skip-unknown leaves such characters out", error.what()));
  }
  if (tokens.empty()) tokens.push_back(tokenizer->start_token());
  return tokens;
}

void generate(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options,
              int64_t sample_number, const std::function<void(int32_t)>& emit) {
  const NoGradGuard no_grad;
  const std::optional<int32_t> end = loaded.tokenizer ? loaded.tokenizer->end_token() : std::nullopt;
  const RandomStream random{.seed = options.seed,
                            .site = random_site(RandomDomain::sampling),
                            .update = static_cast<uint64_t>(sample_number)};
  nn::KvCache cache(loaded.model->config());
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    const std::vector<double> logits = next_logits(*loaded.model, tokens, cache);
    const int32_t token = sample(logits, options.sampler, random, static_cast<uint64_t>(i));
    if (end && token == *end) return;
    tokens.push_back(token);
    emit(token);
  }
}

void run_generate(const GenerateOptions& options) {
  check(options.sampler);
  require<ConfigError>(options.num_tokens >= 0, "--tokens is {}, it must not be negative", options.num_tokens);
  require<ConfigError>(options.num_samples >= 1, "--num-samples is {}, it must be at least 1", options.num_samples);
  const LoadedModel loaded = load_model(load_checkpoint(options.checkpoint));
  const std::vector<int32_t> prompt = prompt_tokens(loaded, options);
  for (int64_t n = 0; n < options.num_samples; ++n) {
    write_output(options.prompt);
    if (loaded.tokenizer == nullptr) {
      generate(loaded, prompt, options, n, [&](int32_t id) { write_output(" " + std::to_string(id)); });
    } else {
      data::StreamDecoder decoder(*loaded.tokenizer);
      generate(loaded, prompt, options, n, [&](int32_t id) { write_output(decoder.push(id)); });
      write_output(decoder.finish());
    }
    write_output("\n");
  }
}

}  // namespace heed::train
