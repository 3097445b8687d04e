// Which class of transformers computes a model, and why another does not.
#include "train/huggingface/model_class.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "autograd/core/check.hpp"
#include "tests/train/huggingface/export_cases.hpp"

namespace heed::train {
namespace {

using nn::Activation, nn::GptConfig, nn::NormKind, nn::NormPosition, nn::Position;
using test::ExportCase;
using Texts = std::vector<std::string>;

constexpr NormKind kNorms[] = {NormKind::layer, NormKind::rms};
constexpr NormPosition kNormPositions[] = {NormPosition::pre, NormPosition::post, NormPosition::sandwich};
constexpr Activation kActivations[] = {Activation::gelu, Activation::gelu_erf, Activation::relu, Activation::relu2,
                                       Activation::silu, Activation::swiglu,   Activation::geglu};
constexpr Position kPositions[] = {Position::learned, Position::sinusoidal, Position::rope, Position::alibi,
                                   Position::none};

// The type of the class, or the text of the error.
std::string choice(const GptConfig& model) {
  try {
    return std::string(choose_model_class(model).model_type);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(ModelClass, EachHasACaseThatTransformersLoaded) {
  std::set<std::string> of_cases, all;
  for (const ExportCase& one : test::export_cases()) of_cases.insert(one.model_type);
  for (const ModelClass& one : model_classes()) all.emplace(one.model_type);
  EXPECT_EQ(of_cases, all);
  EXPECT_EQ(all.size(), model_classes().size());
}

// Each key that a class can lack, alone in a model that fits otherwise.
TEST(ModelClass, ReportsJustTheKeysThatDoNotFit) {
  struct Change {
    const char* name;  // of the case that fits
    std::function<void(GptConfig&)> change;
    const char* unsupported;
  };
  const Change changes[] = {
      {"mistral", [](GptConfig& m) { m.norm = NormKind::layer; }, "model.norm = \"layer\""},
      {"llama", [](GptConfig& m) { m.norm_position = NormPosition::post; }, "model.norm_position = \"post\""},
      {"nanochat", [](GptConfig& m) { m.norm_gain = true; }, "model.norm_gain = true"},
      {"nanochat", [](GptConfig& m) { m.mup_base_width = 4; }, "model.mup_base_width = 4"},
      {"opt", [](GptConfig& m) { m.norm_eps = 1e-6; }, "model.norm_eps = 1e-06"},
      {"opt", [](GptConfig& m) { m.attention_only = true; }, "model.attention_only = true"},
      {"llama", [](GptConfig& m) { m.qk_norm = true; }, "model.qk_norm = true"},
      {"qwen3", [](GptConfig& m) { m.qk_norm = false; }, "model.qk_norm = false"},
      {"gpt2", [](GptConfig& m) { m.embedding_norm = true; }, "model.embedding_norm = true"},
      {"bloom", [](GptConfig& m) { m.embedding_norm = false; }, "model.embedding_norm = false"},
      {"bloom", [](GptConfig& m) { m.activation = Activation::gelu_erf; }, "model.activation = \"gelu_erf\""},
      {"gpt2", [](GptConfig& m) { m.activation = Activation::swiglu; }, "model.activation = \"swiglu\""},
      {"mpt", [](GptConfig& m) { m.d_ff = 4 * m.d_model + 1; }, "model.d_ff = 49"},
      {"gpt2", [](GptConfig& m) { m.position = Position::rope; }, "model.position = \"rope\""},
      {"phi3", [](GptConfig& m) { m.position = Position::none; }, "model.position = \"none\""},
      {"llama", [](GptConfig& m) { m.rope_fraction = 0.5; }, "model.rope_fraction = 0.5"},
      {"phi3", [](GptConfig& m) { m.rope_scaling = nn::RopeScaling::linear; }, "model.rope_scaling = \"linear\""},
      {"gemma3", [](GptConfig& m) { m.rope_scaling = nn::RopeScaling::llama3; }, "model.rope_scaling = \"llama3\""},
      {"llama", [](GptConfig& m) { m.sliding_window = 4; }, "model.sliding_window = 4 with window_pattern = \"S\""},
      {"mistral", [](GptConfig& m) { m.window_pattern = "SL"; },
       "model.sliding_window = 5 with window_pattern = \"SL\""},
      {"mistral", [](GptConfig& m) { m.bias = true; }, "model.bias = true"},
      {"mpt", [](GptConfig& m) { m.bias = true; }, "model.bias = true"},
      {"llama", [](GptConfig& m) { m.logit_softcap = 3; }, "model.logit_softcap = 3"},
  };
  for (const Change& one : changes) {
    const ExportCase fitting = test::export_case(one.name);
    const ModelClass& its_class = *find_model_class(fitting.model_type);
    GptConfig model = test::case_model(fitting);
    EXPECT_EQ(unsupported_settings(its_class, model), Texts()) << one.name;
    one.change(model);
    EXPECT_EQ(unsupported_settings(its_class, model), Texts{one.unsupported}) << one.name;
  }
}

TEST(ModelClass, NamesTheNearestAndAllThatItLacks) {
  GptConfig model = test::case_model(test::export_case("qwen3"));
  model.bias = true;
  model.logit_softcap = 3;
  EXPECT_EQ(
      choice(model),
      "no model class of transformers computes this model; the closest, qwen3, does not support model.bias = true, "
      "model.logit_softcap = 3. To export a model, train it without");
}

// No combination is refused without a key to change, and none that was exported before is refused.
TEST(ModelClass, EachCombinationHasAClassOrAReason) {
  int fitting = 0;
  for (const NormKind norm : kNorms) {
    for (const NormPosition norm_position : kNormPositions) {
      for (const Activation activation : kActivations) {
        for (const Position position : kPositions) {
          GptConfig model{.vocab_size = 11, .bias = false};
          model.norm = norm;
          model.norm_position = norm_position;
          model.activation = activation;
          model.position = position;
          const std::string chosen = choice(model);
          const ModelClass* found = find_model_class(chosen);
          if (found != nullptr) {
            EXPECT_EQ(unsupported_settings(*found, model), Texts());
            ++fitting;
            continue;
          }
          EXPECT_NE(chosen.find(" does not support model."), std::string::npos) << chosen;
          EXPECT_EQ(chosen.find('\n'), std::string::npos) << chosen;
          for (const ModelClass& one : model_classes())
            EXPECT_FALSE(unsupported_settings(one, model).empty()) << chosen;
        }
      }
    }
  }
  // layer, pre: 15 gpt2, 7 starcoder2 and stablelm with rope, 2 stablelm without positions, 1 mpt; post: 15 openai-gpt
  // and opt. rms, pre: 14 llama and arcee; sandwich: 4 gemma2.
  EXPECT_EQ(fitting, 25 + 15 + 14 + 4);
}

}  // namespace
}  // namespace heed::train
