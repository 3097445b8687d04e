#include "train/trainer/pretrained.hpp"

#include <algorithm>
#include <array>

#include "train/comm/agreement.hpp"
#include "train/config/config_schema.hpp"

namespace heed::train {
namespace {

// Keys of [model] that change training, but not what the model computes.
constexpr std::array kFree = {"seq_len", "dropout", "attention_dropout", "init_std", "zero_init_projections", "seed"};

bool is_free(const std::string& key) { return std::find(kFree.begin(), kFree.end(), key) != kFree.end(); }

template <class To, class From>
void copy_first(const Tensor& to, const Tensor& from) {
  const int64_t count = std::min(to.numel(), from.numel());
  const From* source = from.data<From>();
  std::transform(source, source + count, to.data<To>(), [](From value) { return static_cast<To>(value); });
}

// A text is tokenized by the pretrained tokenizer, so the keys of another one would have no effect. config.toml of a
// run that is resumed has them, with their defaults.
void require_no_tokenizer_keys(const Pretrained& pretrained, const Config& config) {
  if (pretrained.tokenizer == nullptr || config.data.source != DataSource::text) return;
  for (const char* key : {"data.tokenizer", "data.tokenizer_file", "data.vocab_size"}) {
    require<ConfigError>(!config.given.contains(key),
                         "key {} has no effect: train.init_from has a tokenizer, \"{}\": remove the key", key,
                         data::tokenizer_name(pretrained.tokenizer->kind()));
  }
}

}  // namespace

std::unique_ptr<const Pretrained> read_on_all_ranks(const Config& config, bool is_resumed, const ReadPretrained& read,
                                                    comm::ProcessGroup& ranks) {
  std::unique_ptr<const Pretrained> pretrained;
  // Also without init_from: a rank with another config must not miss the exchange.
  comm::check_on_all_ranks(ranks, [&] {
    if (config.train.init_from.empty()) return;
    require<ValueError>(static_cast<bool>(read), "train.init_from is set, but there is no function to read it");
    pretrained = std::make_unique<const Pretrained>(read(config.train.init_from));
    if (!is_resumed) require_no_tokenizer_keys(*pretrained, config);
  });
  return pretrained;
}

int64_t Pretrained::vocab_size() const {
  const auto embedding = parameters.find("token_embedding.weight");
  return embedding == parameters.end() ? 0 : embedding->second.shape()[0];
}

void require_same_architecture(const Pretrained& pretrained, const Config& config) {
  std::string differences;
  for (const KeySpec& key : schema()) {
    const bool matters =
        key.table == "model" && !is_free(key.name) && (key.has_effect(config) || key.has_effect(pretrained.config));
    if (!matters || key.get(config) == key.get(pretrained.config)) continue;
    differences += fmt::format("{}{} = {} (here {})", differences.empty() ? "" : ", ", key.path(),
                               key.get(pretrained.config), key.get(config));
  }
  require<ConfigError>(differences.empty(), "train.init_from: {} has another architecture: set {}", pretrained.name,
                       differences);
  const int64_t most = pretrained.config.model.max_positions();
  require<ConfigError>(config.model.seq_len <= most,
                       "train.init_from: {} has positions for {} tokens, model.seq_len is {}: lower it to {}",
                       pretrained.name, most, config.model.seq_len, most);
  const bool is_text = pretrained.tokenizer != nullptr && config.data.source == DataSource::text;
  const bool by_lines = config.data.split == data::TextSplit::lines;
  require<ConfigError>(!is_text || by_lines == pretrained.tokenizer->end_token().has_value(),
                       "train.init_from: the tokenizer of {} has {} token for the end of a line: set data.split to "
                       "\"{}\"",
                       pretrained.name, by_lines ? "no" : "a", by_lines ? "position" : "lines");
}

void require_same_tokenizer(const Pretrained& pretrained, const data::Tokenizer* tokenizer) {
  const bool is_same = pretrained.tokenizer == nullptr || tokenizer == nullptr ||
                       pretrained.tokenizer->serialize() == tokenizer->serialize();
  require<ConfigError>(is_same,
                       "train.init_from: the tokenizer of the data is not that of {}: prepare the token file with that "
                       "one, or use data.source = \"text\"",
                       pretrained.name);
}

void copy_parameters(const Pretrained& pretrained, const nn::ParameterStore& store) {
  require<ConfigError>(pretrained.parameters.size() == store.entries().size(),
                       "train.init_from: {} has {} tensors, this model has {}", pretrained.name,
                       pretrained.parameters.size(), store.entries().size());
  for (const nn::ParameterStore::Entry& entry : store.entries()) {
    const auto found = pretrained.parameters.find(entry.name);
    require<ConfigError>(found != pretrained.parameters.end(), "train.init_from: {} has no tensor {}", pretrained.name,
                         entry.name);
    const Tensor& from = found->second;
    const bool may_grow = entry.name == "token_embedding.weight" || entry.name == "head.weight";
    const bool may_shrink = entry.name == "position_embedding.weight";
    bool fits = from.rank() == entry.shape.rank();
    for (int64_t i = 0; fits && i < from.rank(); ++i) {
      const int64_t theirs = from.shape()[static_cast<int>(i)], ours = entry.shape[static_cast<int>(i)];
      fits = theirs == ours || (i == 0 && ((may_grow && theirs < ours) || (may_shrink && theirs > ours)));
    }
    require<ConfigError>(fits, "train.init_from: tensor {} of {} has the shape {}, this model {}", entry.name,
                         pretrained.name, from.shape().text(), entry.shape.text());
    const Tensor here = entry.values.to(Device::cpu);
    if (here.dtype() == DType::f64) {
      from.dtype() == DType::f64 ? copy_first<double, double>(here, from) : copy_first<double, float>(here, from);
    } else {
      from.dtype() == DType::f64 ? copy_first<float, double>(here, from) : copy_first<float, float>(here, from);
    }
    copy_elements_to(entry.values.ref(), here.ref());
  }
  store.update_copies();
}

}  // namespace heed::train
