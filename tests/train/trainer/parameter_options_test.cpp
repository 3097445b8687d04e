// Which parameters Muon updates, as which matrices, and the learning rates of groups.
#include "train/trainer/parameter_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

using test::tiny_config;

TEST(ParameterOptions, MuonUpdatesTheMatricesOfTheBlocks) {
  const Config config = tiny_config({"optimizer=muon", "learning_rate=0.02", "adamw_learning_rate=0.005"});
  const Trainer trainer(config);
  const nn::ParameterStore& store = trainer.model().parameters();
  const std::vector<comm::EntryOptions> options = entry_options(config, store);
  for (size_t i = 0; i < options.size(); ++i) {
    const nn::ParameterStore::Entry& entry = store.entries()[i];
    const bool is_hidden = entry.name.starts_with("blocks.") && entry.shape.rank() == 2;
    EXPECT_EQ(options[i].is_hidden_matrix, is_hidden) << entry.name;
    EXPECT_EQ(options[i].learning_rate_scale, is_hidden ? 1 : 0.25) << entry.name;
  }
}

TEST(ParameterOptions, QueriesKeysAndValuesAreMatricesOfTheirOwn) {
  const Config config = tiny_config({"num_kv_heads=1"});
  const Trainer trainer(config);
  const nn::ParameterStore& store = trainer.model().parameters();
  std::vector<Shape> shapes;
  for (const Tensor& matrix : hidden_matrices(config.model, store)) shapes.push_back(matrix.shape());
  const std::vector<Shape> block{{16, 16}, {8, 16}, {8, 16}, {16, 16}, {64, 16}, {16, 64}};
  ASSERT_EQ(shapes.size(), 2 * block.size());
  for (size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(shapes[i], block[i % block.size()]) << i;
  const Tensor& qkv = store.entry("blocks.0.attention.qkv.weight").tensor.grad();
  const auto begin = static_cast<const float*>(qkv.ref().data);
  const std::vector<Tensor> matrices = hidden_matrices(config.model, store);
  EXPECT_EQ(matrices[1].data<float>(), begin + 16 * 16);
  EXPECT_EQ(matrices[2].data<float>(), begin + 24 * 16);
}

TEST(ParameterOptions, GateAndUpProjectionAreMatricesOfTheirOwn) {
  const Config config = tiny_config({"activation=swiglu", "d_ff=24"});
  const Trainer trainer(config);
  const std::vector<Tensor> matrices = hidden_matrices(config.model, trainer.model().parameters());
  ASSERT_EQ(matrices.size() % 2, 0u);
  const auto is_half = [](const Tensor& matrix) { return matrix.shape() == Shape{24, 16}; };
  EXPECT_EQ(std::count_if(matrices.begin(), matrices.end(), is_half), 4);
}

// One step from the same weights: a group moves by its factor times what it moves otherwise (weight decay is 0), and
// all others as before.
TEST(ParameterOptions, AScaleMovesItsGroupAlone) {
  const auto weights_after = [](const std::vector<std::string>& more, int steps) {
    std::vector<std::string> all{"tie_embeddings=false", "weight_decay=0", "precision=f64"};
    all.insert(all.end(), more.begin(), more.end());
    Trainer trainer(tiny_config(all));
    for (int i = 0; i < steps; ++i) trainer.train_step();
    std::map<std::string, std::vector<double>> weights;
    for (const auto& entry : trainer.model().parameters().entries()) weights[entry.name] = entry.values.values();
    return weights;
  };
  for (const char* optimizer : {"optimizer=adamw", "optimizer=sgd", "optimizer=muon"}) {
    const auto start = weights_after({optimizer}, 0), plain = weights_after({optimizer}, 1);
    for (const std::string key : {"embedding", "head", "vector"}) {
      const auto scaled = weights_after({optimizer, key + "_lr_scale=3"}, 1);
      for (const auto& [name, values] : scaled) {
        const bool is_vector = name.ends_with(".bias") || name.find("norm") != std::string::npos;
        const bool is_in_group =
            key == "vector" ? is_vector : name.find(key == "head" ? "head" : "embedding") != std::string::npos;
        for (size_t i = 0; i < values.size(); ++i) {
          const double moved = plain.at(name)[i] - start.at(name)[i];
          ASSERT_NEAR(values[i] - start.at(name)[i], (is_in_group ? 3 : 1) * moved, test::kF64)
              << optimizer << " " << key << " " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace heed::train
