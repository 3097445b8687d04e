// No false alarm for a fresh model with default weights, whatever its size and its data; an alarm for weights that are
// far too large.
#include "train/trainer/first_loss.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/train/tiny.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

struct Text {
  const char* name;
  int vocab;
  std::function<int(int, int)> symbol;  // of a place and a random number
};

class FirstLoss : public testing::Test {
 protected:
  double first_loss(const Text& text, std::vector<std::string> more) const {
    const std::string path = (folder_.path() / text.name).string();
    std::ofstream file(path);
    uint32_t random = 1;
    for (int i = 0; i < 2000; ++i) {
      random = random * 1664525 + 1013904223;
      file << static_cast<char>('a' + text.symbol(i, static_cast<int>(random >> 16)) % text.vocab);
    }
    file.close();
    more.push_back("data.path=" + path);
    config_ = parse_config(R"(
      [model]
      num_heads = 2
      seq_len = 16
      [data]
      source = "text"
      val_fraction = 0
      [train]
      steps = 1
      batch_size = 4
      device = "cpu"
    )",
                           "text.toml", more);
    Trainer trainer(config_);
    config_ = trainer.config();
    return trainer.train_step().loss;
  }

  test::TemporaryFolder folder_;
  mutable Config config_;
};

const Text kTexts[] = {
    {"bits", 2, [](int, int random) { return random; }},
    {"alternating", 2, [](int i, int) { return i; }},
    {"abcd", 4, [](int i, int) { return i; }},
    {"long_runs", 3, [](int i, int) { return i / 300; }},
    {"seven", 7, [](int, int random) { return random; }},
    {"sixteen", 16, [](int, int random) { return random; }},
    {"sixteen_in_turn", 16, [](int i, int) { return i * 3; }},
};

TEST_F(FirstLoss, IsInRangeForDefaultWeights) {
  const auto check = [&](const Text& text, int width, int layers) {
    for (const char* form : {"tie_embeddings=true", "tie_embeddings=false", "norm_position=post",
                             "norm_position=sandwich", "norm=rms", "norm_gain=false", "qk_norm=true",
                             "embedding_norm=true", "attention_only=true", "mup_base_width=32", "mup_base_width=256"}) {
      const double loss = first_loss(
          text, {fmt::format("d_model={}", width), fmt::format("num_layers={}", layers), std::string("model.") + form});
      const LossRange range = first_loss_range(config_.model);
      EXPECT_TRUE(range.lowest <= loss && loss <= range.highest)
          << text.name << ", d_model " << width << ", layers " << layers << ", " << form << ": " << loss << " not in "
          << range.lowest << " to " << range.highest;
    }
  };
  for (const Text& text : kTexts) check(text, 128, 1);
  for (const Text& text : {kTexts[0], kTexts[2]}) {
    check(text, 16, 1);
    check(text, 128, 4);
  }
}

TEST_F(FirstLoss, IsOutOfRangeForWeightsThatAreTooLarge) {
  for (const Text& text : {kTexts[2], kTexts[4], kTexts[5]}) {
    for (const char* width : {"d_model=16", "d_model=128"}) {
      for (const char* form : {"model.tie_embeddings=true", "model.tie_embeddings=false", "model.norm_position=post"}) {
        const double loss = first_loss(text, {width, "num_layers=2", "init_std=1", form});
        EXPECT_GT(loss, first_loss_range(config_.model).highest) << text.name << ", " << width << ", " << form;
      }
    }
  }
}

}  // namespace
}  // namespace heed::train
