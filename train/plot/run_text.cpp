#include "train/plot/run_text.hpp"

#include "data/text/tokenizer.hpp"
#include "train/config/config_schema.hpp"
#include "train/output/number_text.hpp"

namespace heed::train {

namespace fs = std::filesystem;

std::string dataset_text(const Config& config) {
  const DataConfig& data = config.data;
  const std::string file = fs::path(data.path).filename().string();
  if (data.source == DataSource::tokens) return file;
  if (data.source == DataSource::text) return fmt::format("{}, {} tokens", file, data::tokenizer_name(data.tokenizer));
  std::string text = find_key("data", "source")->get(config);  // in quotes
  text = text.substr(1, text.size() - 2);
  if (data.source == DataSource::ngram) text += fmt::format(", order {}", data.order);
  if (data.source == DataSource::skip) text += fmt::format(", offsets {}", fmt::join(data.offsets, " "));
  return fmt::format("{}, vocabulary {}", text, data.synthetic_vocab_size());
}

std::string model_text(const nn::GptConfig& m) {
  return fmt::format("{}, d_model {}, {}", plural(m.num_layers, "layer"), m.d_model, plural(m.num_heads, "head"));
}

std::string folder_name(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(fs::absolute(folder, ignored), ignored);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace heed::train
