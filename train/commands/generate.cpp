#include "train/commands/generate.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/core/check.hpp"
#include "autograd/tape.hpp"
#include "data/io/posix_file.hpp"
#include "data/text/tokenizer.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/config/config_value.hpp"
#include "train/output/output.hpp"
#include "train/run/run_folder.hpp"

namespace heed::train {
namespace {

// Token ids in descending order of their logits; equal logits in ascending order of ids.
std::vector<int32_t> ranked(std::span<const double> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

// A prompt is written by a person: a larger file was probably named by mistake.
constexpr size_t kLargestPromptBytes = size_t{64} << 20;

std::string read_prompt_file(const std::string& path) {
  const std::string name = path == "-" ? std::string("standard input") : data::quoted_path(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"),
                                                               std::fclose);
  std::FILE* const file = path == "-" ? stdin : opened.get();
  const auto require_read = [&](bool success) {
    require<DataError>(success, "generate: --prompt-file: {} cannot be read: {}", name,
                       std::generic_category().message(errno));
  };
  require_read(file != nullptr);
  std::string text;
  std::vector<char> part(size_t{1} << 16);
  while (const size_t got = std::fread(part.data(), 1, part.size(), file)) {
    text.append(part.data(), got);
    require<DataError>(text.size() <= kLargestPromptBytes,
                       "generate: --prompt-file: {} has more than {} bytes: is it a prompt?", name,
                       kLargestPromptBytes);
  }
  require_read(std::ferror(file) == 0);
  return text;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::vector<int32_t> parse_ids(const std::string& text, int64_t vocab_size, const std::string& what) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (is_blank(*at)) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    require<DataError>(error == std::errc() && id >= 0 && id < vocab_size && (next == end || is_blank(*next)),
                       "{} must be token ids below {} with spaces between, since the model has no tokenizer, not {}",
                       what, vocab_size, shorten(quote(text)));
    ids.push_back(id);
    at = next;
  }
  return ids;
}

// cache: the keys and values that the call for one token less has stored, or an empty cache.
std::vector<double> next_logits(const nn::Gpt& model, const std::vector<int32_t>& tokens, nn::KvCache& cache) {
  // After seq_len tokens the context moves, and with it the position of each token, so all cached keys and values are
  // invalid.
  if (cache.length() == cache.capacity()) cache.clear();
  const int64_t window = std::min<int64_t>(static_cast<int64_t>(tokens.size()), cache.capacity());
  const int64_t fresh = window - cache.length();
  return model
      .next_logits(from_tokens({1, fresh}, {tokens.end() - fresh, tokens.end()}, model.parameters().device()), cache)
      .values();
}

}  // namespace

void check(const SamplerOptions& o) {
  require<ConfigError>(std::isfinite(o.temperature) && o.temperature >= 0,
                       "--temperature is {}, it must be finite and at least 0", o.temperature);
  require<ConfigError>(o.top_k >= 0, "--top-k is {}, it must be at least 1, or 0 for all", o.top_k);
  require<ConfigError>(o.top_p > 0 && o.top_p <= 1, "--top-p is {}, it must be above 0 and at most 1", o.top_p);
}

int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index) {
  check(options);
  const bool broken =
      std::any_of(logits.begin(), logits.end(), [](double l) { return std::isnan(l) || l == INFINITY; });
  const std::vector<int32_t> ids = ranked(logits);
  require<DivergedError>(!broken && !ids.empty() && std::isfinite(logits[static_cast<size_t>(ids[0])]),
                         "generate: the model gives logits that are not finite");
  if (options.temperature == 0 || options.top_k == 1) return ids[0];
  size_t count = ids.size();
  if (options.top_k > 0) count = std::min(count, static_cast<size_t>(options.top_k));
  std::vector<double> weights;
  const double largest = logits[static_cast<size_t>(ids[0])];
  // The largest logit is subtracted before the division: at a tiny temperature the others become -Inf, never NaN.
  for (size_t i = 0; i < count; ++i) {
    weights.push_back(std::exp((logits[static_cast<size_t>(ids[i])] - largest) / options.temperature));
  }
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t last = 0;
  do {
    kept += weights[last++];
  } while (last < count && kept < options.top_p * all);
  double rest = random.uniform(index) * kept;
  for (size_t i = 0; i < last; ++i) {
    rest -= weights[i];
    if (rest < 0) return ids[i];
  }
  return ids[0];
}

Prompt make_prompt(const LoadedModel& loaded, const std::string& text, bool skip_unknown, const std::string& what) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  std::vector<int32_t> given;
  if (tokenizer == nullptr) {
    given = parse_ids(text, loaded.model->config().vocab_size, what);
  } else {
    try {
      given = tokenizer->encode(text, skip_unknown ? data::Unknown::skip : data::Unknown::refuse);
    } catch (const data::UnknownCharacterError& error) {
      throw data::UnknownCharacterError(fmt::format("{}: {}", what, error.what()));
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}", what, error.what()));
    }
  }
  Prompt prompt{.tokens = {}, .num_given = static_cast<int64_t>(given.size())};
  // If lines are sequences, each begins with the end token of the previous one.
  if (tokenizer != nullptr && tokenizer->end_token()) prompt.tokens.push_back(*tokenizer->end_token());
  prompt.tokens.insert(prompt.tokens.end(), given.begin(), given.end());
  if (prompt.tokens.empty()) prompt.tokens.push_back(tokenizer == nullptr ? 0 : tokenizer->start_token());
  return prompt;
}

void generate(const LoadedModel& loaded, std::vector<int32_t> tokens, const GenerateOptions& options,
              int64_t sample_number, const std::function<void(int32_t)>& emit) {
  const NoGradGuard no_grad;
  const std::optional<int32_t> end = loaded.tokenizer ? loaded.tokenizer->end_token() : std::nullopt;
  const RandomStream random{
      .seed = options.seed, .site = random_site(RandomDomain::sampling), .step = static_cast<uint64_t>(sample_number)};
  nn::KvCache cache(loaded.model->config());
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    const std::vector<double> logits = next_logits(*loaded.model, tokens, cache);
    const int32_t token = sample(logits, options.sampler, random, static_cast<uint64_t>(i));
    if (end && token == *end) return;
    tokens.push_back(token);
    emit(token);
  }
}

namespace {

// Prints the text, or token ids separated by spaces. The prompt also passes through the decoder: a character may begin
// in the prompt and end in the generated tokens.
void print_sample(const LoadedModel& loaded, const Prompt& prompt, const GenerateOptions& options, int64_t number) {
  const auto print_all = [&](const std::function<std::string(int32_t)>& text_of) {
    std::string shown;
    for (auto id = prompt.tokens.end() - prompt.num_given; id != prompt.tokens.end(); ++id) shown += text_of(*id);
    write_output(shown);
    generate(loaded, prompt.tokens, options, number, [&](int32_t id) { write_output(text_of(id)); });
  };
  if (loaded.tokenizer == nullptr) {
    bool is_first = true;
    print_all([&](int32_t id) { return (std::exchange(is_first, false) ? "" : " ") + std::to_string(id); });
  } else {
    data::StreamDecoder decoder(*loaded.tokenizer);
    print_all([&](int32_t id) { return decoder.push(id); });
    write_output(decoder.finish());
  }
  write_output("\n");
}

}  // namespace

void run_generate(const GenerateOptions& options) {
  check(options.sampler);
  require<ConfigError>(options.num_tokens >= 0, "--tokens is {}, it must not be negative", options.num_tokens);
  require<ConfigError>(options.num_samples >= 1, "--num-samples is {}, it must be at least 1", options.num_samples);
  const std::string file = checkpoint_of(options.checkpoint);
  const LoadedModel loaded = load_model(load_checkpoint(file));
  const std::string text = options.prompt_file.empty() ? options.prompt : read_prompt_file(options.prompt_file);
  const Prompt prompt = [&] {
    try {
      return make_prompt(loaded, text, options.skip_unknown);
    } catch (const data::UnknownCharacterError& error) {
      throw DataError(fmt::format("{}, or pass --skip-unknown", error.what()));
    }
  }();
  // To stderr: stdout has the text only.
  if (file != options.checkpoint) write_notice(fmt::format("{}, step {}\n", quote(file), loaded.step));
  const bool has_lines = loaded.tokenizer != nullptr && !loaded.tokenizer->end_token();
  for (int64_t n = 0; n < options.num_samples; ++n) {
    if (has_lines && options.num_samples > 1) print("──── sample {} of {} ────\n", n + 1, options.num_samples);
    print_sample(loaded, prompt, options, n);
  }
}

}  // namespace heed::train
