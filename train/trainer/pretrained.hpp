// The model that training starts from (train.init_from), in place of random weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/text/tokenizer.hpp"
#include "nn/parameter_store.hpp"
#include "train/comm/process_group.hpp"
#include "train/config/config.hpp"

namespace heed::train {

struct Pretrained {
  std::string name;                                  // its file or folder, for messages
  Config config;                                     // with the [model] table that it was trained with
  std::map<std::string, Tensor> parameters;          // on the CPU, by the names of ParameterStore
  std::shared_ptr<const data::Tokenizer> tokenizer;  // nullptr if it has none

  int64_t vocab_size() const;  // rows of the token embedding
};

// Reads the value of train.init_from. Called on each rank.
using ReadPretrained = std::function<Pretrained(const std::string& path)>;

// nullptr without train.init_from. A resumed run reads it again, for its tokenizer. Collective: every rank calls it.
// Throws ConfigError if the keys of a new run name another tokenizer than that of the pretrained model; on several
// ranks CollectiveError on all of them if one fails.
std::unique_ptr<const Pretrained> read_on_all_ranks(const Config& config, bool is_resumed, const ReadPretrained& read,
                                                    comm::ProcessGroup& ranks);

// Throws ConfigError unless the [model] tables agree in every key that is not about training alone (dropout, initial
// weights), with seq_len at most that of the pretrained model if positions are learned; or if data.split and the
// tokenizer do not fit together.
void require_same_architecture(const Pretrained& pretrained, const Config& config);

// Throws ConfigError if the dataset, such as a token file, has another tokenizer than the pretrained model.
void require_same_tokenizer(const Pretrained& pretrained, const data::Tokenizer* tokenizer);

// Copies the parameters into the store, converted to its dtype. Rows of the vocabulary beyond that of the pretrained
// model keep their values, and of learned positions the first are copied. Throws ConfigError for a parameter that one
// of the two lacks, or of another shape.
void copy_parameters(const Pretrained& pretrained, const nn::ParameterStore& store);

}  // namespace heed::train
