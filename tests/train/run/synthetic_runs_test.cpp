// A short run on each synthetic dataset: its reference losses in the log and in the files, and its losses.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny.hpp"
#include "train/ablate/run_result.hpp"
#include "train/run/reporter.hpp"
#include "train/run/run.hpp"

namespace heed::train {
namespace {

struct Case {
  std::vector<std::string> overrides;
  std::vector<std::string> names;  // of the reference losses
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{"source=ngram"}, {"unigram", "bigram"}},
      {{"source=ngram", "prefix=uniform"}, {"0-offset", "bayes"}},
      {{"source=skip", "offsets=[2, 7]", "prefix=uniform"}, {"0-offset", "1-offset", "bayes"}},
      {{"source=markov_in_context"}, {"uniform", "unigram", "bigram"}},
      {{"source=repeat", "min_period=2", "max_period=4"}, {"uniform", "bayes"}},
      {{"source=hidden_markov"}, {"unigram", "bigram", "trigram", "5-gram", "bayes"}},
      {{"source=dyck"}, {"unigram", "depth", "bayes"}},
      {{"source=modular_addition", "seq_len=3", "modulus=7"}, {"uniform", "exact"}},
      {{"source=addition", "digits=2", "seq_len=8"}, {"uniform", "no-carry", "exact"}}};
  return all;
}

Config config_of(const Case& one, const test::TemporaryFolder& folder) {
  std::vector<std::string> overrides = {"steps=6", "eval_interval=3", "final_eval=subset",
                                        "train.run_dir=" + (folder.path() / "run").string()};
  overrides.insert(overrides.end(), one.overrides.begin(), one.overrides.end());
  return test::tiny_config(overrides);
}

TEST(SyntheticRuns, TheFilesHaveTheReferenceLosses) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(testing::PrintToString(one.overrides));
    const test::TemporaryFolder folder;
    const Summary summary = run_training(config_of(one, folder));
    const RunResult result = read_run(folder.path() / "run").value();
    ASSERT_EQ(result.summary.entropies.size(), one.names.size());
    for (size_t k = 0; k < one.names.size(); ++k) {
      const data::ContextEntropy &written = summary.entropies[k], &read = result.summary.entropies[k];
      EXPECT_EQ(read.name, one.names[k]);
      EXPECT_EQ(read.context_tokens, written.context_tokens);
      EXPECT_EQ(read.standard_error > 0, written.standard_error > 0);
    }
    EXPECT_EQ(result.passed.size(), one.names.size() - 1);
    EXPECT_TRUE(std::isfinite(summary.val_loss.value()));
    EXPECT_GT(summary.excess.value(), 0);
    EXPECT_EQ(summary.entropy.value(), summary.entropies.back().nats);
  }
}

TEST(SyntheticRuns, TheLogHasTheReferenceLosses) {
  const auto header = [](const std::string& source) {
    return trainer_header(Trainer(test::tiny_config({"source=" + source})));
  };
  const auto expect_line = [](const std::string& text, const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in: " << text;
  };
  expect_line(header("ngram"), "entropies     of the dataset, in nats, by tokens of context:  unigram 1.");
  expect_line(header("dyck"), "of known strategies, in nats:  unigram 2.0");
  expect_line(header("markov_in_context"), "uniform 1.7918  unigram 1.");
  expect_line(header("markov_in_context"), " ± 0.00");
}

}  // namespace
}  // namespace heed::train
