// What summary.json says is what is read back from it.
#include <gtest/gtest.h>

#include "autograd/core/check.hpp"
#include "tests/train/tiny.hpp"
#include "train/config/config_schema.hpp"
#include "train/run/summary_reader.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

class SummaryTest : public testing::Test {
 protected:
  StoredSummary read(const std::string& text) const {
    std::ofstream(file()) << text;
    return read_summary(file());
  }
  fs::path file() const { return folder_.path() / "summary.json"; }

  test::TemporaryFolder folder_;
};

TEST_F(SummaryTest, IsReadBack) {
  const Config config = test::tiny_config({"train.stop_after=7", "optim.learning_rate=0.25", "model.dropout=0.5"});
  Summary summary{.status = RunStatus::stopped, .reason = "train.stop_after = 7", .steps = 7, .parameters = 99};
  summary.val_loss = 1.5;
  summary.test_loss = 1.75;
  summary.entropies = {{.context_tokens = 0, .nats = 2.25, .name = "unigram"}};
  const StoredSummary stored = read(summary_to_json(summary, config));
  EXPECT_EQ(stored.summary.status, RunStatus::stopped);
  EXPECT_EQ(stored.summary.steps, 7);
  EXPECT_EQ(stored.summary.parameters, 99);
  EXPECT_EQ(stored.summary.val_loss, 1.5);
  EXPECT_EQ(stored.summary.test_loss, 1.75);
  EXPECT_EQ(stored.summary.bits_per_byte, std::nullopt);
  EXPECT_EQ(stored.summary.excess, std::nullopt);
  ASSERT_EQ(stored.summary.entropies.size(), 1u);
  EXPECT_EQ(stored.summary.entropies[0].name, "unigram");
  for (const KeySpec& key : schema()) {
    if (!key.has_effect(config)) continue;
    EXPECT_EQ(key.get(stored.config), key.get(config)) << key.path();
  }
  EXPECT_TRUE(is_complete(stored.summary, stored.config));
}

TEST_F(SummaryTest, ASignalOrAnErrorMakesARunIncomplete) {
  const Config config = test::tiny_config();
  EXPECT_FALSE(is_complete({.status = RunStatus::stopped, .reason = "SIGINT"}, config));
  EXPECT_FALSE(is_complete({.status = RunStatus::diverged}, config));
  EXPECT_FALSE(is_complete({.status = RunStatus::running}, config));
  EXPECT_TRUE(is_complete({.status = RunStatus::completed}, config));
}

TEST_F(SummaryTest, AnotherFileIsAnErrorWithItsName) {
  const std::string whole = summary_to_json({}, test::tiny_config());
  std::string edited = whole;
  edited.replace(edited.find("\"num_heads\": "), 13, "\"num_heads\": -");
  for (const std::string& text :
       {std::string("mine"), std::string("{}"), std::string("[1]"), whole.substr(0, 200), edited}) {
    try {
      read(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(file().string()), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace heed::train
