#include "data/synthetic/addition_dataset.hpp"
#include "data/synthetic/dirichlet.hpp"
#include "data/synthetic/dyck_dataset.hpp"
#include "data/synthetic/hidden_markov_dataset.hpp"
#include "data/synthetic/markov_chain.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "data/synthetic/repeat_dataset.hpp"
#include "train/config/config_keys.hpp"

namespace heed::train {

namespace {

void add_text_keys(Table<DataConfig>& source) {
  using data::TextSplit, data::TokenizerKind;
  source
      .add("tokenizer", &DataConfig::tokenizer,
           choice<TokenizerKind>({{"char", TokenizerKind::character},
                                  {"byte", TokenizerKind::byte},
                                  {"bpe", TokenizerKind::bpe},
                                  {"file", TokenizerKind::file}}),
           "\"char\": one token for each character; \"byte\": for each byte; \"bpe\": byte-pair encoding trained on "
           "the text; \"file\": byte-level BPE of tokenizer_file, as of GPT-2 or Llama 3")
      .only_with("data.source", {"text"});
  source
      .add(
          "tokenizer_file", &DataConfig::tokenizer_file, path_name(),
          "a tokenizer.json of Hugging Face, or a folder with it or with GPT-2's vocab.json and merges.txt; a relative "
          "path counts from the current folder, ~ is the home folder")
      .required()
      .changeable()
      .only_with("data.tokenizer", {"file"});
  source
      .add("split", &DataConfig::split,
           choice<TextSplit>({{"position", TextSplit::position}, {"lines", TextSplit::lines}}),
           "\"position\": consecutive parts of the text; \"lines\": each line is one sequence")
      .only_with("data.source", {"text"});
  source
      .add("val_fraction", &DataConfig::val_fraction, number(0, 0.99),
           "fraction of the text, or of all pairs (a, b), for validation; 0: no validation, so no best.h5")
      .only_with("data.source", {"text", "modular_addition", "addition"})
      .unless("data.val_lines");
  source.add("test_fraction", &DataConfig::test_fraction, number(0, 0.99), "fraction of the text for the test split")
      .only_with("data.source", {"text"})
      .unless("data.test_lines");
  source
      .add("val_lines", &DataConfig::val_lines, integer(0, 1'000'000'000),
           "number of lines for validation; 0: val_fraction decides")
      .only_with("data.split", {"lines"});
  source
      .add("test_lines", &DataConfig::test_lines, integer(0, 1'000'000'000),
           "number of lines for the test split; 0: test_fraction decides")
      .only_with("data.split", {"lines"});
  source
      .add("document_separator", &DataConfig::document_separator, text(),
           "text of the token that ends a document, such as \"\\n\": attention does not cross it; \"\": none")
      .only_with("data.source", {"text", "tokens"});
}

// Keys of one synthetic dataset each.
void add_task_keys(Table<DataConfig>& source) {
  using data::AdditionDataset, data::DyckDataset, data::RepeatDataset;
  source
      .add("min_period", &DataConfig::min_period, integer(1, RepeatDataset::kMaxPeriod),
           "tokens of the shortest block that is repeated")
      .only_with("data.source", {"repeat"});
  source
      .add("max_period", &DataConfig::max_period, integer(1, RepeatDataset::kMaxPeriod),
           "tokens of the longest block that is repeated")
      .only_with("data.source", {"repeat"});
  source
      .add("num_states", &DataConfig::num_states, integer(1, data::HiddenMarkovDataset::kMaxStates),
           "hidden states of the Markov chain")
      .only_with("data.source", {"hidden_markov"});
  source.add("num_brackets", &DataConfig::num_brackets, integer(1, DyckDataset::kMaxBrackets), "types of brackets")
      .only_with("data.source", {"dyck"});
  source.add("max_depth", &DataConfig::max_depth, integer(1, DyckDataset::kMaxDepth), "most brackets open at once")
      .only_with("data.source", {"dyck"});
  source
      .add("modulus", &DataConfig::modulus, integer(2, data::ModularAdditionDataset::kMaxModulus),
           "p in a + b = c (mod p)")
      .only_with("data.source", {"modular_addition"});
  source
      .add("digits", &DataConfig::digits, integer(1, AdditionDataset::kMaxDigits),
           "decimal digits of a and b in a + b = c")
      .only_with("data.source", {"addition"});
}

}  // namespace

void add_data_keys(std::vector<KeySpec>& keys) {
  Table<DataConfig> source(keys, "data", &Config::data);
  source
      .add("source", &DataConfig::source,
           choice<DataSource>({{"ngram", DataSource::ngram},
                               {"skip", DataSource::skip},
                               {"markov_in_context", DataSource::markov_in_context},
                               {"repeat", DataSource::repeat},
                               {"hidden_markov", DataSource::hidden_markov},
                               {"dyck", DataSource::dyck},
                               {"modular_addition", DataSource::modular_addition},
                               {"addition", DataSource::addition},
                               {"text", DataSource::text},
                               {"tokens", DataSource::tokens}}),
           "the dataset: \"text\" is a text file, \"tokens\" a token file made by heed data prepare; the others are "
           "synthetic: Markov chains (\"ngram\", \"skip\", \"markov_in_context\" with one for each sequence, "
           "\"hidden_markov\"), repeated random tokens (\"repeat\"), nested brackets (\"dyck\"), a + b = c "
           "(\"modular_addition\", \"addition\")")
      .required();
  source.add("vocab_size", &DataConfig::vocab_size, integer(2, 65536), "vocabulary size")
      .default_is("32, for bpe 512")
      .only_with("data.source", {"ngram", "skip", "markov_in_context", "repeat", "hidden_markov"})
      .only_with("data.tokenizer", {"bpe"});
  source
      .add("order", &DataConfig::order, integer(1, data::MarkovChain::kMaxMemory + 1),
           "each token depends on the order - 1 tokens before it")
      .only_with("data.source", {"ngram"});
  source
      .add("offsets", &DataConfig::offsets, list(integer(1, 1'048'576)),
           "each token depends on the tokens this many places before it; all different")
      .required()
      .only_with("data.source", {"skip"});
  source
      .add("prefix", &DataConfig::prefix,
           choice<SequencePrefix>({{"stationary", SequencePrefix::stationary}, {"uniform", SequencePrefix::uniform}}),
           "how a sequence begins: \"stationary\": from the stationary distribution; \"uniform\": its first "
           "order - 1 (skip: max(offsets)) tokens are uniform random, which allows far offsets")
      .only_with("data.source", {"ngram", "skip"});
  source
      .add("alpha", &DataConfig::alpha, list(number(data::kMinAlpha, data::kMaxAlpha)),
           "Dirichlet concentrations: of the unigram distribution (its mean is uniform), then one for each token of "
           "context (the mean is the distribution for the shorter context); markov_in_context: of the rows; "
           "hidden_markov: of transitions and emissions; smaller is more peaked")
      .default_is("[32, 8, 4, 4, …], for markov_in_context [1], for hidden_markov [1, 1]")
      .only_with("data.source", {"ngram", "skip", "markov_in_context", "hidden_markov"});
  add_task_keys(source);
  source.add("seed", &DataConfig::seed, seed_number(), "random seed of the sampled sequences").default_is("seed");
  source
      .add("source_seed", &DataConfig::source_seed, seed_number(),
           "random seed of the dataset itself: a synthetic dataset's probabilities, or which pairs or lines are for "
           "validation")
      .default_is("data.seed if that is set, else 1")
      .only_with("data.source", {"ngram", "skip", "hidden_markov", "modular_addition", "addition"})
      .only_with("data.split", {"lines"});
  source
      .add("path", &DataConfig::path, path_name(),
           "text file or token file; a relative path counts from the current folder, ~ is the home folder")
      .required()
      .changeable()
      .only_with("data.source", {"text", "tokens"});
  add_text_keys(source);
}

}  // namespace heed::train
