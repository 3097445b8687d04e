#include "train/huggingface/model_card.hpp"

#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/output/number_text.hpp"
#include "train/run/version.hpp"

namespace heed::train {
namespace {

constexpr const char* kCard = R"(---
library_name: transformers
pipeline_tag: text-generation
tags:
- heed
---

# {title}

A causal language model of {parameters} parameters, {origin} heed {version} and exported as
`{architecture}` of transformers.

```python
from transformers import AutoModelForCausalLM{tokenizer_import}

model = AutoModelForCausalLM.from_pretrained("path of this folder")
{tokenizer_line}```

| | |
|---|---|
| {data_row} | {data} |
| vocabulary | {vocab_size} tokens |
| context | {seq_len} tokens |
{losses}{notes}
## Config

```toml
{config}```
)";

std::string last_component(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string data_text(const Config& config) {
  if (config.data.is_synthetic()) return "synthetic, see `[data]` below";
  return fmt::format("`{}`", data::printable(last_component(config.data.path)));
}

std::string losses_text(const CheckpointContent& content) {
  std::string rows;
  if (content.reals.contains(kBestName)) {
    rows +=
        fmt::format("| lowest validation loss of the run | {} nats per token |\n", loss_text(content.real(kBestName)));
  }
  if (content.reals.contains("train_loss")) {
    rows +=
        fmt::format("| training loss of the last step | {} nats per token |\n", loss_text(content.real("train_loss")));
  }
  return rows;
}

// What the exported model does not do as in training.
std::string notes_text(const Config& config) {
  if (config.data.document_separator.empty()) return "";
  return "\nIn training, attention did not cross the end of a document, and positions began again after it. "
         "transformers does\nneither: give the model one document at a time.\n";
}

// The config as TOML, all paths shortened to their last component: a model card is published.
std::string config_text(Config config) {
  config.train.run_dir = "runs/" + last_component(config.train.run_dir);
  for (std::string* path : {&config.data.path, &config.data.tokenizer_file, &config.train.init_from}) {
    *path = last_component(*path);
  }
  return config_to_toml(config);
}

}  // namespace

std::string model_card(const ModelClass& one, const LoadedModel& loaded, const CheckpointContent& content) {
  const std::string& run = loaded.config.train.run_dir;
  const bool has_tokenizer = loaded.tokenizer != nullptr;
  const nn::GptConfig& model = loaded.model->config();
  return fmt::format(
      kCard, fmt::arg("title", data::printable(run.substr(run.rfind('/') + 1))),
      fmt::arg("parameters", count_text(static_cast<double>(loaded.model->parameters().parameters()))),
      fmt::arg("version", kVersion),
      fmt::arg("origin",
               loaded.step == 0 ? "imported by" : fmt::format("trained for {} with", plural(loaded.step, "step"))),
      fmt::arg("architecture", one.architecture), fmt::arg("tokenizer_import", has_tokenizer ? ", AutoTokenizer" : ""),
      fmt::arg("tokenizer_line",
               has_tokenizer ? "tokenizer = AutoTokenizer.from_pretrained(\"path of this folder\")\n" : ""),
      fmt::arg("data_row", loaded.step == 0 ? "imported from" : "data"), fmt::arg("data", data_text(loaded.config)),
      fmt::arg("vocab_size", model.vocab_size), fmt::arg("seq_len", model.seq_len),
      fmt::arg("losses", losses_text(content)), fmt::arg("notes", notes_text(loaded.config)),
      fmt::arg("config", config_text(loaded.config)));
}

}  // namespace heed::train
