// An exported folder is the one that transformers loaded, and its logits are those that transformers computed.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "data/io/checksum.hpp"
#include "data/io/safetensors.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/huggingface/export_cases.hpp"
#include "train/huggingface/plain_model.hpp"

namespace heed::train {
namespace {

using test::ExportCase, test::TemporaryFolder;

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b.at(i)));
  return most;
}

// All cases are exported once: writing files that survive a power failure takes longer than all else here.
class Export : public testing::Test {
 protected:
  struct Exports {
    TemporaryFolder folder;
    std::map<std::string, Exported> by_name;
  };

  static void SetUpTestSuite() {
    exports_ = std::make_unique<Exports>();
    for (const ExportCase& one : test::export_cases()) {
      exports_->by_name.emplace(one.name, test::export_into(exports_->folder, one));
    }
  }
  static void TearDownTestSuite() { exports_.reset(); }

  static const Exported& exported(const ExportCase& one) { return exports_->by_name.at(one.name); }
  static std::filesystem::path folder_of(const ExportCase& one) { return exports_->folder.path() / one.name; }

 private:
  static std::unique_ptr<Exports> exports_;
};
std::unique_ptr<Export::Exports> Export::exports_;

TEST_F(Export, WritesTheFilesThatTransformersLoaded) {
  for (const ExportCase& one : test::export_cases()) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(exported(one).model_class->model_type, one.model_type);
    EXPECT_EQ(exported(one).files,
              (std::vector<std::string>{"model.safetensors", "config.json", "generation_config.json", "README.md"}));
    EXPECT_EQ(test::read_file(folder_of(one) / "config.json"), test::fixture(one.name + ".config.json"));
    if (one.has_sinusoids()) continue;
    const std::string weights = test::read_file(folder_of(one) / "model.safetensors");
    EXPECT_EQ(fmt::format("{:016x}", data::checksum(weights)), one.checksum);
  }
}

// The plain model that verifies every export, and so heed's model.
TEST_F(Export, HasTheLogitsOfTransformers) {
  for (const ExportCase& one : test::export_cases()) {
    SCOPED_TRACE(one.name);
    const PlainModel plain(folder_of(one).string());
    const std::vector<double> expected = test::case_logits(one.name);
    ASSERT_EQ(expected.size(), test::kCaseTokens * test::kCaseVocabulary);
    const double allowed = test::kTransformersF32 * largest(expected);
    EXPECT_LE(largest_difference(plain.logits(test::case_tokens()), expected), allowed);
    ASSERT_TRUE(exported(one).verification.has_value());
    EXPECT_EQ(exported(one).verification->tokens, test::kCaseTokens);
    EXPECT_LE(exported(one).verification->largest_difference,
              test::kTransformersF32 * exported(one).verification->largest_logit);
  }
}

// A bias of all keys adds the same to each score of a query, which the softmax takes away, unless keys are rotated.
bool has_no_effect(const std::string& type, const std::string& tensor) {
  return type == "opt" && tensor.ends_with("k_proj.bias");
}

TEST_F(Export, IsVerifiedByEachTensor) {
  for (const ExportCase& one : test::export_cases()) {
    const std::filesystem::path path = folder_of(one), file = path / "model.safetensors";
    const std::string bytes = test::read_file(file);
    const std::vector<double> expected = test::case_logits(one.name);
    const auto entries = data::SafetensorsFile(file.string()).entries();
    for (const auto& [name, entry] : entries) {
      std::string changed = bytes;
      std::rotate(changed.begin() + entry.begin, changed.begin() + entry.begin + entry.elements() / 2 * 4,
                  changed.begin() + entry.end);
      if (changed == bytes || has_no_effect(one.model_type, name)) continue;
      test::overwrite(file, changed);
      const double difference = largest_difference(PlainModel(path.string()).logits(test::case_tokens()), expected);
      EXPECT_GT(difference, test::kExportFault * std::max(1.0, largest(expected)))
          << one.name << ": halves swapped in " << name;
    }
    test::overwrite(file, bytes);
  }
}

TEST_F(Export, IsVerifiedByTheNamesOfTensors) {
  const ExportCase one = test::export_case("llama");
  const std::filesystem::path path = folder_of(one), file = path / "model.safetensors";
  const std::string bytes = test::read_file(file), config = test::read_file(path / "config.json");
  const auto error = [&] {
    try {
      PlainModel(path.string());
    } catch (const DataError& found) {
      return std::string(found.what());
    }
    return std::string("no error");
  };
  test::overwrite(file, test::replaced(bytes, "layers.1.mlp.up_proj.weight", "layers.1.mlp.up_proj.height"));
  EXPECT_NE(error().find("have no tensor model.layers.1.mlp.up_proj.weight"), std::string::npos) << error();
  test::overwrite(file, bytes);
  test::overwrite(path / "config.json", test::replaced(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"));
  EXPECT_NE(error().find("has no tensors model.layers.1.input_layernorm.weight, "), std::string::npos) << error();
  test::overwrite(path / "config.json", test::replaced(config, "\"vocab_size\": 11", "\"vocab_size\": 12"));
  EXPECT_NE(error().find("has the shape (11, 16), it must be (12, 16)"), std::string::npos) << error();
  test::overwrite(path / "config.json", config);
}

}  // namespace
}  // namespace heed::train
