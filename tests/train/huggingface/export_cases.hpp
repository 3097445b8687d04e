// The cases of tests/reference/make_huggingface_fixtures.py: tiny models, exported as transformers loaded them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nn/gpt.hpp"
#include "tests/train/tiny.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/huggingface/export_model.hpp"

namespace heed::test {

inline constexpr int32_t kCaseVocabulary = 11;
inline constexpr int32_t kCaseTokens = 12;

inline std::string fixture(const std::string& file) {
  return read_file(std::filesystem::path(HEED_REFERENCE_FIXTURES) / "huggingface" / file);
}

struct ExportCase {
  std::string name, model_type, checksum;  // of model.safetensors, in hexadecimal digits

  // sin and cos may round differently elsewhere.
  bool has_sinusoids() const { return checksum == std::string(16, '0'); }
  std::string config_toml() const { return fixture(name + ".toml"); }
};

inline std::vector<ExportCase> export_cases() {
  std::vector<ExportCase> cases;
  std::istringstream lines(fixture("cases.csv"));
  for (ExportCase one; std::getline(lines, one.name, ',') && std::getline(lines, one.model_type, ',') &&
                       std::getline(lines, one.checksum);) {
    cases.push_back(one);
  }
  return cases;
}

inline ExportCase export_case(const std::string& name) {
  const std::vector<ExportCase> cases = export_cases();
  return *std::find_if(cases.begin(), cases.end(), [&](const ExportCase& one) { return one.name == name; });
}

// The sequence whose logits transformers computed.
inline std::vector<int32_t> case_tokens() {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kCaseTokens; ++i) tokens.push_back((3 * i * i + i + 1) % kCaseVocabulary);
  return tokens;
}

// (position, token)
inline std::vector<double> case_logits(const std::string& name) {
  std::vector<double> logits;
  std::string text = fixture(name + ".logits.csv");
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream values(text);
  for (double value = 0; values >> value;) logits.push_back(value);
  return logits;
}

// Element k of parameter number i in the order of the names: a multiple of 1 / 256 from -1/2 to 1/2.
inline float case_value(uint32_t i, uint32_t k) {
  uint32_t mixed = (1000003 * i + k) * 2654435761U;
  mixed = (mixed ^ (mixed >> 15)) * 2246822519U;
  return (static_cast<float>(mixed >> 24) - 128) / 256;
}

inline nn::GptConfig case_model(const ExportCase& one) {
  nn::GptConfig model = train::parse_config(one.config_toml(), one.name).model;
  model.vocab_size = kCaseVocabulary;
  return model;
}

inline train::CheckpointContent case_content(const ExportCase& one) {
  train::CheckpointContent content;
  std::map<std::string, Shape> shapes;
  const nn::Gpt model(case_model(one), DType::f32);
  for (const auto& entry : model.parameters().entries()) shapes.emplace(entry.name, entry.shape);
  uint32_t index = 0;
  for (const auto& [name, shape] : shapes) {
    const Tensor tensor = empty(shape, DType::f32);
    const float offset = name.ends_with("norm.weight") ? 1 : 0;  // gains
    for (int64_t k = 0; k < shape.numel(); ++k) {
      tensor.data<float>()[k] = offset + case_value(index, static_cast<uint32_t>(k));
    }
    content.tensors.emplace("parameters/" + name, tensor);
    ++index;
  }
  for (const char* name : {train::kStepName, "optimizer_steps", "tokens", "evaluation_pending"}) {
    content.integers[name] = 0;
  }
  content.reals["seconds"] = content.reals["wall_seconds"] = 0;
  content.texts["config"] = one.config_toml();
  return content;
}

// As `heed export FOLDER/NAME.h5 FOLDER/NAME`.
inline train::Exported export_into(const TemporaryFolder& folder, const ExportCase& one) {
  const std::string path = (folder.path() / one.name).string();
  train::save_checkpoint(path + ".h5", case_content(one));
  return train::export_model({.checkpoint = path + ".h5", .folder = path});
}

inline void overwrite(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace heed::test
