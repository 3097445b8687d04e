// What a config asks for: its dataset, device, optimizer and schedule.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/tokenizer.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/comm/grad_bucket.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// tokenizer: for a text that is read again, used in place of one learned from the text (data/text_dataset.hpp).
// progress: reports the progress of reading a text and of learning its vocabulary.
std::unique_ptr<data::Dataset> make_dataset(const Config& config,
                                            std::shared_ptr<const data::Tokenizer> tokenizer = nullptr,
                                            const data::Progress& progress = {});
// Sets what the model's architecture has from the data: the vocabulary size (0: not known) and the document separator.
// Throws ConfigError if the separator is not one token of the tokenizer.
void set_from_data(nn::GptConfig& model, const DataConfig& data, int64_t vocab_size, const data::Tokenizer* tokenizer);
// Resolves train.device on this machine. Throws DeviceError if it is cuda and no CUDA device can be used, ConfigError
// for f64 on cuda.
Device choose_device(const Config& config);
// Updates the spans of `buckets`, which must outlive it and have the options of entry_options().
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, const nn::ParameterStore& store,
                                                 comm::GradBuckets& buckets);
optim::ScheduleOptions schedule_options(const Config& config);

}  // namespace heed::train
