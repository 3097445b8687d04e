#include "train/huggingface/read_pretrained.hpp"

#include <filesystem>

#include "data/io/posix_file.hpp"
#include "train/huggingface/import_model.hpp"
#include "train/run/past_step.hpp"

namespace heed::train {
namespace {

CheckpointContent content_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(path) / "config.json", ignored)) return import_model(path).content;
  return load_named_checkpoint(path, read_pretrained).content;
}

}  // namespace

Pretrained read_pretrained(const std::string& path) {
  const CheckpointContent content = content_of(path);
  Pretrained result{.name = data::quoted_path(content.file),
                    .config = parse_config(content.text("config"), content.file + ": config"),
                    .parameters = {},
                    .tokenizer = nullptr};
  constexpr std::string_view kFolder = "parameters/";
  for (const auto& [name, tensor] : content.tensors) {
    if (name.starts_with(kFolder)) result.parameters.emplace(name.substr(kFolder.size()), tensor);
  }
  if (content.texts.contains("tokenizer")) result.tokenizer = data::Tokenizer::parse(content.text("tokenizer"));
  return result;
}

}  // namespace heed::train
