// What import reads from an exported folder is what was exported; a folder that does not fit gets one line.
#include <gtest/gtest.h>

#include <cstring>

#include "data/io/safetensors.hpp"
#include "tests/train/huggingface/export_cases.hpp"
#include "train/huggingface/import_model.hpp"

namespace heed::train {
namespace {

using test::ExportCase, test::TemporaryFolder;

bool all_zero(const Tensor& tensor) {
  const float* values = tensor.data<float>();
  return std::all_of(values, values + tensor.numel(), [](float value) { return value == 0; });
}

// The cases whose class has a tensor for each parameter. qwen2 has some biases, which are 0 here, and so gets all.
TEST(Import, GivesTheParametersThatWereExported) {
  const TemporaryFolder folder;
  for (const char* name : {"gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "arcee", "apertus", "starcoder2"}) {
    SCOPED_TRACE(name);
    const ExportCase one = test::export_case(name);
    test::export_into(folder, one);
    const Imported imported = import_model((folder.path() / name).string());
    EXPECT_EQ(imported.config.model_class->model_type, one.model_type);
    nn::GptConfig model = test::case_model(one);
    model.bias = model.bias || one.model_type == "qwen2";
    if (one.model_type == "gpt2") model.num_kv_heads = 0;  // it has no key for them
    EXPECT_EQ(model_table(imported.config.model), model_table(model));
    EXPECT_EQ(imported.config.model.vocab_size, test::kCaseVocabulary);

    const CheckpointContent exported = test::case_content(one);
    for (const auto& [parameter, tensor] : exported.tensors) {
      ASSERT_TRUE(imported.content.tensors.contains(parameter)) << parameter;
      const Tensor& found = imported.content.tensor(parameter, DType::f32, tensor.shape());
      EXPECT_EQ(std::memcmp(found.data<float>(), tensor.data<float>(), tensor.numel() * sizeof(float)), 0) << parameter;
    }
    for (const auto& [parameter, tensor] : imported.content.tensors) {
      if (exported.tensors.contains(parameter)) continue;
      EXPECT_EQ(one.model_type, "qwen2") << parameter;
      EXPECT_TRUE(parameter.ends_with(".bias") && all_zero(tensor)) << parameter;
    }
  }
}

TEST(Import, TakesTheKeysOfTransformers4) {
  const TemporaryFolder folder;
  const ExportCase one = test::export_case("llama");
  test::export_into(folder, one);
  const std::filesystem::path config = folder.path() / one.name / "config.json";
  test::overwrite(config, test::replaced(test::read_file(config), "\"rope_parameters\"", "\"not_read\""));
  EXPECT_EQ(model_table(read_import_config((folder.path() / one.name).string()).model),
            model_table(test::case_model(one)));
}

nn::GptConfig read_config(const std::string& config) {
  const TemporaryFolder folder;
  test::overwrite(folder.path() / "config.json", config);
  return read_import_config(folder.path().string()).model;
}

// Without these keys, transformers has other values than heed.
TEST(Import, HasTheDefaultsOfTheClasses) {
  const std::string sizes =
      R"("vocab_size": 9, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 30, "num_attention_heads": 2,
         "max_position_embeddings": 12, "rms_norm_eps": 1e-6, "hidden_act": "silu"})";
  const auto with = [&](const std::string& keys) { return read_config("{" + keys + ", " + sizes); };
  EXPECT_EQ(with("\"model_type\": \"mistral\"").sliding_window, 4096);
  EXPECT_EQ(with("\"model_type\": \"mistral\", \"sliding_window\": null").sliding_window, 0);
  EXPECT_EQ(with("\"model_type\": \"qwen2\"").sliding_window, 0);
  const nn::GptConfig qwen2 = with("\"model_type\": \"qwen2\", \"use_sliding_window\": true");
  EXPECT_EQ(qwen2.sliding_window, 4096);
  EXPECT_EQ(qwen2.window_pattern, std::string(28, 'L') + "SS");
  EXPECT_EQ(with("\"model_type\": \"llama\"").rope_base, 1e4);
  EXPECT_EQ(
      with("\"model_type\": \"llama\", \"rope_theta\": 7.0, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
           "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 3, \"rope_theta\": 5.0}")
          .rope_scaling_factor,
      2);
  EXPECT_THROW(with("\"model_type\": \"apertus\""), DataError);
  EXPECT_THROW(with("\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.4"), DataError);  // 3 columns of 8
  EXPECT_EQ(with("\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.5").rope_columns(), 4);
}

// A head that is stored although config.json says that it is tied: of other weights it is a separate one.
TEST(Import, TiesTheHeadOnlyIfItIsTheEmbedding) {
  const TemporaryFolder folder;
  const ExportCase one = test::export_case("llama");
  test::export_into(folder, one);
  const std::string path = (folder.path() / one.name).string(), file = path + "/model.safetensors";
  const data::SafetensorsFile stored(file);
  std::vector<data::SafetensorsTensor> tensors;
  for (const auto& [name, entry] : stored.entries()) {
    std::vector<float> values(entry.elements());
    stored.read(name, values);
    tensors.push_back({name, entry.shape, [values] { return values; }});
    if (name == "model.embed_tokens.weight")
      tensors.push_back({"lm_head.weight", entry.shape, [values] { return values; }});
  }
  const auto import_again = [&] {
    std::filesystem::remove(file);
    data::write_safetensors(path, tensors, DType::f32, 1 << 20);
    return import_model(path).config.model.tie_embeddings;
  };
  EXPECT_TRUE(import_again());
  for (data::SafetensorsTensor& tensor : tensors) {
    if (tensor.name != "lm_head.weight") continue;
    tensor.values = [values = tensor.values()]() mutable {
      values.back() += 1;
      return values;
    };
  }
  EXPECT_FALSE(import_again());
}

// What to replace in config.json or, if that does not have it, in the weights; and what the one line says.
struct Refusal {
  const char *from, *to, *said;
};

TEST(Import, RefusesInOneLineThatNamesWhatDoesNotFit) {
  constexpr Refusal kRefusals[] = {
      {"layers.1.self_attn.k_proj.weight", "layers.1.self_attn.k_proj.height",
       "there is no tensor model.layers.1.self_attn.k_proj.weight"},
      {"\"intermediate_size\": 12", "\"intermediate_size\": 10",
       "tensor model.layers.0.mlp.gate_proj.weight has the shape (12, 16), config.json says (10, 16)"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
       "unexpected tensors for the class llama, such as \"model.layers.1.input_layernorm.weight\""},
      {"\"model_type\": \"llama\"", "\"model_type\": \"t5\"",
       "model_type \"t5\" cannot be imported, it must be one of "},
      {"\"head_dim\": 8", "\"head_dim\": 4", "head_dim is 4, it must be hidden_size / num_attention_heads = 8"},
      {"\"hidden_size\": 16", "\"hidden_size\": 15", "hidden_size must be a multiple of num_attention_heads"},
      {"\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\"", "rope_type \"yarn\" must be \"default\", \"linear\""},
      {"\"low_freq_factor\": 1.0", "\"low_freq_factor\": 2.0", "low_freq_factor and high_freq_factor must be 1 and 4"},
      {"\"rope_scaling\": {", "\"rope_scaling\": {\"partial_rotary_factor\": 0.5, ", "partial_rotary_factor must be 1"},
      {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"quick_gelu\"",
       "activation \"quick_gelu\" of a gated MLP must be \"silu\" or"},
      {"\"vocab_size\"", "\"size\"", "vocab_size"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2147483647", "an integer from 1 to 1024"},
      {"\"max_position_embeddings\": 12", "\"max_position_embeddings\": 10000000",
       "model.seq_len is the integer 10000000"},
      {"\"vocab_size\"", "\"quantization_config\": {}, \"vocab_size\"", "quantization_config must be null"},
  };
  const TemporaryFolder folder;
  const ExportCase one = test::export_case("llama");
  test::export_into(folder, one);
  const std::filesystem::path path = folder.path() / one.name;
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.to);
    const bool in_config = test::read_file(path / "config.json").find(refusal.from) != std::string::npos;
    const std::filesystem::path file = path / (in_config ? "config.json" : "model.safetensors");
    const std::string before = test::read_file(file);
    test::overwrite(file, test::replaced(before, refusal.from, refusal.to));
    std::string said = "no error";
    try {
      import_model(path.string());
    } catch (const DataError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(refusal.said), std::string::npos) << said;
    EXPECT_NE(said.find(path.string()), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    test::overwrite(file, before);
  }
}

}  // namespace
}  // namespace heed::train
