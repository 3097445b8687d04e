#include "train/commands/prompt.hpp"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"
#include "data/text/tokenizer.hpp"
#include "train/config/config_value.hpp"

namespace heed::train {
namespace {

// A prompt is written by a person: a larger file was probably named by mistake.
constexpr size_t kLargestTextBytes = size_t{64} << 20;

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

}  // namespace

std::string read_text_argument(const std::string& path, const std::string& option) {
  const std::string name = path == "-" ? std::string("standard input") : data::quoted_path(path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"),
                                                               std::fclose);
  std::FILE* const file = path == "-" ? stdin : opened.get();
  const auto require_read = [&](bool success) {
    require<DataError>(success, "{}: {} cannot be read: {}", option, name, std::generic_category().message(errno));
  };
  require_read(file != nullptr);
  std::string text;
  std::vector<char> part(size_t{1} << 16);
  while (const size_t got = std::fread(part.data(), 1, part.size(), file)) {
    text.append(part.data(), got);
    require<DataError>(text.size() <= kLargestTextBytes, "{}: {} has more than {} bytes: is it the right file?", option,
                       name, kLargestTextBytes);
  }
  require_read(std::ferror(file) == 0);
  return text;
}

std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text, bool skip_unknown,
                                 const std::string& what) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  if (tokenizer == nullptr) return parse_ids(text, loaded.model->config().vocab_size, what);
  try {
    return tokenizer->encode(text, skip_unknown ? data::Unknown::skip : data::Unknown::refuse);
  } catch (const data::UnknownCharacterError& error) {
    throw data::UnknownCharacterError(fmt::format("{}: {}", what, error.what()));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", what, error.what()));
  }
}

Prompt make_prompt(const LoadedModel& loaded, const std::string& text, bool skip_unknown, const std::string& what) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  const std::vector<int32_t> given = encode_text(loaded, text, skip_unknown, what);
  Prompt prompt{.tokens = {}, .num_given = static_cast<int64_t>(given.size())};
  // If lines are sequences, each begins with the end token of the previous one.
  if (tokenizer != nullptr && tokenizer->end_token()) prompt.tokens.push_back(*tokenizer->end_token());
  prompt.tokens.insert(prompt.tokens.end(), given.begin(), given.end());
  if (prompt.tokens.empty()) prompt.tokens.push_back(tokenizer == nullptr ? 0 : tokenizer->start_token());
  return prompt;
}

}  // namespace heed::train
