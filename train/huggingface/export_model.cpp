#include "train/huggingface/export_model.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/tape.hpp"
#include "data/io/safetensors.hpp"
#include "data/text/byte_level_bpe.hpp"
#include "data/text/tokenizer_json.hpp"
#include "train/huggingface/config_json.hpp"
#include "train/huggingface/export_tensors.hpp"
#include "train/huggingface/model_card.hpp"
#include "train/huggingface/new_folder.hpp"
#include "train/huggingface/plain_model.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/run/past_step.hpp"

namespace heed::train {
namespace {

// On the CPU, in the precision of the stored weights.
LoadedModel load_for_export(const CheckpointContent& content, EvaluatedWeights weights) {
  const Config saved = parse_config(content.text("config"), content.file + ": config");
  std::vector<std::string> overrides{"train.device=cpu"};
  if (saved.train.precision == DType::bf16) overrides.emplace_back("train.precision=f32");
  return load_model(content, overrides, weights);
}

// The end-of-text token, or the token that ends a line in data split by lines.
std::optional<int32_t> end_of_text(const data::Tokenizer& tokenizer) {
  const auto* from_file = dynamic_cast<const data::ByteLevelBpe*>(&tokenizer);
  if (from_file != nullptr && from_file->parts().end_of_text >= 0) return from_file->parts().end_of_text;
  return tokenizer.end_token();
}

std::vector<data::SafetensorsTensor> weights_of(const ModelClass& one, const ModelWeights& weights) {
  std::vector<data::SafetensorsTensor> tensors;
  for (const ExportTensor& tensor : export_tensors(one, weights)) {
    tensors.push_back({tensor.name, tensor.shape, [values = tensor.values] { return values().values; }});
  }
  return tensors;
}

// Random token ids; their number is chosen so that the verification takes about a second.
std::vector<int32_t> verification_tokens(const nn::GptConfig& model, int64_t parameters) {
  const int64_t most = std::clamp<int64_t>(1'000'000'000 / std::max<int64_t>(parameters, 1), 8, 256);
  std::vector<int32_t> tokens(std::min(most, model.seq_len));
  const RandomStream random{.seed = 1, .site = random_site(RandomDomain::sampling), .step = 0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(data::random_below(random, static_cast<int64_t>(i), model.vocab_size));
  }
  return tokens;
}

Verification verify(const nn::Gpt& model, const std::string& folder, DType dtype) {
  const PlainModel plain(folder);
  const std::vector<int32_t> tokens = verification_tokens(model.config(), model.parameters().parameters());
  const auto length = static_cast<int64_t>(tokens.size());
  const std::vector<double> found = plain.logits(tokens);
  const NoGradGuard no_grad;
  const Tensor logits = model.logits(from_tokens({1, length}, tokens), {}).to(Device::cpu);
  Verification result{.tokens = length};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const double expected = logits.dtype() == DType::f64 ? logits.data<double>()[index] : logits.data<float>()[index];
    result.largest_logit = std::max(result.largest_logit, std::abs(expected));
    // Not std::max, which would lose a NaN.
    const double difference = std::abs(found[i] - expected);
    if (!(difference <= result.largest_difference)) result.largest_difference = difference;
  }
  // bf16 has 8 significant bits, so each weight has a relative rounding error of up to 2^-9. A wrong layout gives
  // differences as large as the logits themselves.
  const double allowed = (dtype == DType::bf16 ? 0.1 : 1e-4) * std::max(1.0, result.largest_logit);
  require<Error>(result.largest_difference <= allowed,
                 "export: logits computed from the written files differ from the model's by {:.3g} (largest logit "
                 "{:.3g}), so no folder is written. This is a bug in heed: please report it with the config",
                 result.largest_difference, result.largest_logit);
  return result;
}

// All files, and the verification.
void write_files(const NewFolder& folder, const CheckpointContent& content, const ExportOptions& options,
                 Exported& done) {
  const nn::GptConfig& model = done.loaded.model->config();
  const ModelWeights weights(content, model,
                             options.weights == EvaluatedWeights::average ? "optimizer/ema" : "parameters");
  constexpr int64_t kBytesPerMb = 1'000'000;
  done.files = data::write_safetensors(folder.working_path().string(), weights_of(*done.model_class, weights),
                                       options.dtype, options.max_file_mb * kBytesPerMb);
  const data::Tokenizer* tokenizer = done.loaded.tokenizer.get();
  const std::optional<int32_t> end = tokenizer == nullptr ? std::nullopt : end_of_text(*tokenizer);
  const auto write = [&](const char* name, const std::string& text) {
    folder.write(name, text);
    done.files.emplace_back(name);
  };
  write("config.json", config_json(*done.model_class, model, options.dtype, end));
  write("generation_config.json", generation_config_json(end));
  if (tokenizer != nullptr) {
    write("tokenizer.json", data::tokenizer_json(*tokenizer));
    write("tokenizer_config.json", data::tokenizer_config_json(*tokenizer, model.seq_len));
  }
  write("README.md", model_card(*done.model_class, done.loaded, content));
  if (options.verify) done.verification = verify(*done.loaded.model, folder.working_path().string(), options.dtype);
}

}  // namespace

Exported export_model(const ExportOptions& options) {
  Exported done;
  const NamedCheckpoint checkpoint = load_named_checkpoint(options.checkpoint, read_pretrained);
  const CheckpointContent& content = checkpoint.content;
  done.checkpoint = checkpoint.name;
  done.loaded = load_for_export(content, options.weights);
  done.model_class = &choose_model_class(done.loaded.model->config());
  NewFolder folder(options.folder);
  with_final_name(folder.working_path().string(), folder.path().string(),
                  [&] { write_files(folder, content, options, done); });
  folder.commit();
  return done;
}

}  // namespace heed::train
