#include "train/run/checkpoint_match.hpp"

#include <algorithm>
#include <set>

#include "autograd/core/check.hpp"
#include "data/text/tokenizer.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

constexpr const char* kSettableKeys[] = {"data.path", "train.device", "train.precision", "train.batch_size",
                                         "train.micro_batch_size"};

// nullptr unless the argument names exactly one key.
const KeySpec* key_of(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const size_t dot = name.find('.');
  if (dot != std::string::npos) return find_key(name.substr(0, dot), name.substr(dot + 1));
  const std::vector<const KeySpec*> keys = find_keys(name);
  return keys.size() == 1 ? keys.front() : nullptr;
}

std::string difference_of_tokenizers(const std::string& saved, const data::Tokenizer* current) {
  const auto describe = [](const data::Tokenizer* tokenizer) {
    if (tokenizer == nullptr) return std::string("no tokenizer");
    return fmt::format("a {} tokenizer of {} tokens", data::tokenizer_name(tokenizer->kind()), tokenizer->vocab_size());
  };
  if (saved == (current == nullptr ? std::string() : current->serialize())) return {};
  const auto before = saved.empty() ? nullptr : data::Tokenizer::parse(saved);
  const std::string saved_text = describe(before.get()), current_text = describe(current);
  const bool other_pieces = saved_text == current_text;
  return fmt::format("checkpoint: {}; current: {}{}", saved_text, other_pieces ? "another " : "",
                     other_pieces ? current_text.substr(2) : current_text);
}

}  // namespace

void require_settable_keys(const Config& saved, const std::vector<std::string>& overrides) {
  for (const std::string& argument : overrides) {
    const KeySpec* key = key_of(argument);
    if (key == nullptr) continue;
    const auto is_it = [&](const char* settable) { return key->path() == settable; };
    if (std::any_of(std::begin(kSettableKeys), std::end(kSettableKeys), is_it)) continue;
    const bool decides = key->table == "model" || key->table == "data";
    const std::string reason =
        decides && key->has_effect(saved)
            ? fmt::format("{} is {} in the checkpoint and cannot be changed here", key->path(), key->get(saved))
            : fmt::format("{} has no effect on this checkpoint's evaluation", key->path());
    throw ConfigError(
        fmt::format("argument {}: {}; set only {}", shorten(quote(argument)), reason, fmt::join(kSettableKeys, ", ")));
  }
}

std::string data_difference(const CheckpointContent& content, const data::Dataset& dataset) {
  const auto found = content.texts.find("tokenizer");
  const std::string saved_tokenizer = found == content.texts.end() ? std::string() : found->second;
  if (const std::string text = difference_of_tokenizers(saved_tokenizer, dataset.tokenizer()); !text.empty()) {
    return text;
  }
  const std::string& before = content.text("data");
  if (dataset.matches_fingerprint(before)) return {};
  return fmt::format("checkpoint: {}; current: {}", before, dataset.fingerprint());
}

void require_no_foreign_tensors(const CheckpointContent& content, const nn::ParameterStore& store) {
  std::set<std::string, std::less<>> parameters;
  for (const auto& entry : store.entries()) parameters.insert(entry.name);
  for (const auto& named : content.tensors) {
    const std::string& name = named.first;
    const size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? std::string() : name.substr(0, slash);
    const bool known = folder == "parameters" || folder.starts_with("optimizer/");
    require<CheckpointError>(known && parameters.contains(name.substr(slash + 1)),
                             "checkpoint {}: dataset tensors/{} belongs to no parameter of the model that its config "
                             "describes, so the file holds another model",
                             content.file, name);
  }
}

}  // namespace heed::train
