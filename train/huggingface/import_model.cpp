#include "train/huggingface/import_model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "autograd/core/check.hpp"
#include "data/io/quoted_start.hpp"
#include "data/io/safetensors.hpp"
#include "data/text/tokenizer_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/config/config_schema.hpp"
#include "train/huggingface/model_weights.hpp"
#include "train/output/number_text.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using nn::GptConfig;

// Tensors of older folders that transformers ignores, too: masks and frequencies.
bool is_ignored(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

class Importer {
 public:
  Importer(const std::string& folder, const ImportedConfig& config)
      : folder_(data::quoted_path(folder)),
        files_(folder),
        one_(*config.model_class),
        names_(one_.names),
        config_(config),
        model_(config.model) {
    for (const std::string& name : files_.names()) unread_.insert(name);
  }

  // After tensors(): they decide whether the head is tied.
  const GptConfig& model() const { return model_; }

  CheckpointContent::Named<Tensor> tensors() {
    const int64_t width = model_.d_model;
    add("token_embedding.weight", matrix(std::string(names_.token_embedding) + ".weight", model_.vocab_size, width));
    if (model_.position == nn::Position::learned) {
      add("position_embedding.weight",
          matrix(std::string(names_.position_embedding) + ".weight", model_.seq_len, width));
    }
    for (int64_t layer = 0; layer < model_.num_layers; ++layer) {
      theirs_ = fmt::format(fmt::runtime(names_.layer), layer);
      ours_ = fmt::format("blocks.{}.", layer);
      block();
    }
    theirs_.clear();
    ours_.clear();
    norm(names_.last_norm, "last_norm", width);
    head();
    std::erase_if(unread_, [](const std::string& name) { return is_ignored(name); });
    require<DataError>(unread_.empty(), "{}: {} for the class {}, such as {}", folder_,
                       plural(static_cast<int64_t>(unread_.size()), "unexpected tensor"), one_.model_type,
                       unread_.empty() ? "" : data::quoted_start(*unread_.begin()));
    return std::move(tensors_);
  }

 private:
  // Like transformers, ties the head only if a stored one has the weights of the embedding.
  void head() {
    const std::string stored = std::string(names_.head) + ".weight";
    if (model_.tie_embeddings && !has(stored)) return;
    const Matrix weights = matrix(stored, model_.vocab_size, model_.d_model);
    const float* embedding = tensors_.at("parameters/token_embedding.weight").data<float>();
    const bool is_equal = std::equal(weights.values.begin(), weights.values.end(), embedding);
    if (model_.tie_embeddings && is_equal) return;
    model_.tie_embeddings = false;
    add("head.weight", weights);
  }

  // The name in the files: some lack the prefix of the whole model.
  std::string stored_name(const std::string& name) const {
    const size_t dot = name.find('.');
    const std::string short_name = name.substr(dot + 1);
    return files_.find(name) == nullptr && files_.find(short_name) != nullptr ? short_name : name;
  }
  bool has(const std::string& name) const { return files_.find(stored_name(name)) != nullptr; }

  Matrix matrix(const std::string& full_name, int64_t rows, int64_t columns = 1) {
    const std::string name = stored_name(full_name);
    const data::SafetensorsEntry* entry = files_.find(name);
    require<DataError>(entry != nullptr, "{}: there is no tensor {}", folder_, name);
    const std::vector<int64_t> shape = columns == 1 ? std::vector{rows} : std::vector{rows, columns};
    require<DataError>(entry->shape == shape, "{}: tensor {} has the shape ({}), config.json says ({})", folder_, name,
                       fmt::join(entry->shape, ", "), fmt::join(shape, ", "));
    Matrix result{.rows = rows, .columns = columns, .values = std::vector<float>(entry->elements())};
    files_.read(name, result.values);
    unread_.erase(name);
    return result;
  }

  void add(const std::string& parameter, const Matrix& matrix) {
    const bool is_vector = !parameter.ends_with(".weight") || matrix.columns == 1;
    const Shape shape = is_vector ? Shape{matrix.rows} : Shape{matrix.rows, matrix.columns};
    const Tensor tensor = empty(shape, DType::f32);
    std::copy(matrix.values.begin(), matrix.values.end(), tensor.data<float>());
    tensors_.emplace("parameters/" + parameter, tensor);
  }

  // (rows, columns), whatever the class stores.
  Matrix weight(std::string_view name, int64_t rows, int64_t columns) {
    const std::string stored = theirs_ + std::string(name) + ".weight";
    return one_.is_transposed ? transposed(matrix(stored, columns, rows)) : matrix(stored, rows, columns);
  }
  // is_there: the class has it; otherwise zeros.
  Matrix bias(std::string_view name, int64_t rows, bool is_there) {
    return is_there ? matrix(theirs_ + std::string(name) + ".bias", rows) : zeros(rows);
  }

  struct Part {
    std::string_view name;
    int64_t rows;
  };
  // One linear layer, of which the class may have the rows in several.
  void linear(const std::string& parameter, std::initializer_list<Part> parts, int64_t columns, bool has_bias) {
    std::vector<Matrix> weights, biases;
    for (const Part& part : parts) {
      weights.push_back(weight(part.name, part.rows, columns));
      if (model_.bias) biases.push_back(bias(part.name, part.rows, has_bias));
    }
    add(ours_ + parameter + ".weight", stacked(weights));
    if (model_.bias) add(ours_ + parameter + ".bias", stacked(biases));
  }

  void norm(std::string_view name, const std::string& parameter, int64_t size) {
    const std::string stored = theirs_ + std::string(name);
    add(ours_ + parameter + ".weight", matrix(stored + ".weight", size));
    if (model_.norm == nn::NormKind::layer && model_.bias)
      add(ours_ + parameter + ".bias", bias(name, size, one_.has_norm_bias));
  }

  void block() {
    const int64_t width = model_.d_model, keys = model_.kv_heads() * model_.head_size(), hidden = model_.d_ff;
    norm(names_.attention_norm, "attention_norm", width);
    if (one_.qkv == QkvLayout::separate) {
      linear("attention.qkv", {{names_.q, width}, {names_.k, keys}, {names_.v, keys}}, width, config_.qkv_bias);
    } else {
      linear("attention.qkv", {{names_.q, width + 2 * keys}}, width, config_.qkv_bias);
    }
    if (model_.qk_norm) {
      norm(names_.q_norm, "attention.q_norm", model_.head_size());
      norm(names_.k_norm, "attention.k_norm", model_.head_size());
    }
    linear("attention.projection", {{names_.projection, width}}, width, config_.projection_bias);
    norm(names_.feed_forward_norm, "feed_forward_norm", width);
    if (names_.gate.empty()) {
      linear("feed_forward.up", {{names_.up, model_.feed_forward_outputs()}}, width, config_.mlp_bias);
    } else {
      linear("feed_forward.up", {{names_.gate, hidden}, {names_.up, hidden}}, width, config_.mlp_bias);
    }
    linear("feed_forward.down", {{names_.down, width}}, hidden, config_.mlp_bias);
  }

  std::string folder_;
  data::SafetensorsFolder files_;
  const ModelClass& one_;
  const TensorNames& names_;
  const ImportedConfig& config_;
  GptConfig model_;
  std::set<std::string> unread_;
  std::string theirs_, ours_;  // prefixes of the names of a layer
  CheckpointContent::Named<Tensor> tensors_;
};

// Adds the tokenizer of the folder, if heed can use it. Returns what became of it.
std::string import_tokenizer(const std::string& folder, int64_t vocab_size, CheckpointContent& content) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(fs::path(folder) / name, ignored); };
  if (!has("tokenizer.json") && !has("vocab.json")) {
    return "none: give prompts and texts as token ids separated by spaces";
  }
  try {
    const data::ByteLevelBpe tokenizer(data::read_tokenizer_file(folder), false);
    require<DataError>(tokenizer.vocab_size() <= vocab_size, "it has {} tokens, the model {}", tokenizer.vocab_size(),
                       vocab_size);
    content.texts["tokenizer"] = tokenizer.serialize();
    return fmt::format("byte-level BPE, {} tokens", tokenizer.vocab_size());
  } catch (const DataError& error) {
    return fmt::format("not imported, give prompts and texts as token ids separated by spaces: {}", error.what());
  }
}

// A config, which a checkpoint must have: its data says where the model is from.
std::string config_text(const GptConfig& model, const std::string& folder, bool has_tokenizer) {
  Config config;
  config.data.path = fs::absolute(folder).lexically_normal().string();
  const std::string path = find_key("data", "path")->get(config);
  const std::string data = has_tokenizer ? "source = \"text\"\ntokenizer = \"file\"\ntokenizer_file = " + path + "\n"
                                         : "source = \"tokens\"\n";
  return model_table(model) + fmt::format("\n[data]\n{}path = {}\n", data, path);
}

// The limits of heed's configs hold for imported models, too: the checkpoint could not be loaded otherwise.
void require_valid(const std::string& config, const std::string& folder) {
  try {
    parse_config(config, "as a config of heed");
  } catch (const ConfigError& error) {
    throw DataError(fmt::format("{} cannot be imported: {}", data::quoted_path(folder), error.what()));
  }
}

}  // namespace

std::string model_table(const GptConfig& model) {
  const Config defaults;
  Config config;
  config.model = model;
  std::string text = "[model]\n";
  for (const KeySpec& key : schema()) {
    if (key.table != "model" || !key.has_effect(config) || key.get(config) == key.get(defaults)) continue;
    text += fmt::format("{} = {}\n", key.name, key.get(config));
  }
  return text;
}

Imported import_model(const std::string& folder) {
  Imported result{.config = read_import_config(folder), .content = {}, .tokenizer = {}};
  Importer importer(folder, result.config);
  CheckpointContent& content = result.content;
  content.file = folder;
  content.tensors = importer.tensors();
  result.config.model = importer.model();
  for (const char* name : {kStepName, "optimizer_steps", "tokens", "evaluation_pending"}) content.integers[name] = 0;
  content.reals["seconds"] = content.reals["wall_seconds"] = 0;
  result.tokenizer = import_tokenizer(folder, result.config.model.vocab_size, content);
  content.texts["config"] = config_text(result.config.model, folder, content.texts.contains("tokenizer"));
  content.texts["data"] = kImportedData;
  require_valid(content.texts["config"], folder);
  return result;
}

}  // namespace heed::train
