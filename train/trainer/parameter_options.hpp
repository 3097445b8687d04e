// How the optimizer treats the parameters of a model: which are hidden matrices, and the learning rates of groups.
//
//   embeddings   token_embedding, position_embedding           AdamW
//   head         head.weight, untied                            AdamW
//   vectors      gains and biases, of one dimension             AdamW
//   matrices     of two dimensions, in the blocks               Muon with optim.optimizer = "muon"
//
// With model.mup_base_width, m = d_model / mup_base_width, the learning rate of the matrices is multiplied by 1 / m
// with AdamW, by 1 / sqrt(m) with Muon and muon_scale = "match_rms_adamw", and by 1 with Muon and "original"; their
// weight decay is multiplied by the inverse, as in MuAdamW of Yang et al.'s package mup. Other groups do not change.
#pragma once

#include <vector>

#include "nn/gpt_config.hpp"
#include "nn/parameter_store.hpp"
#include "train/comm/grad_bucket.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// Of each entry of the store, in its order.
std::vector<comm::EntryOptions> entry_options(const Config& config, const nn::ParameterStore& store);

// The gradient of each hidden matrix, (rows, columns). The projections to queries, keys and values, and those of a
// gated feed-forward layer, are separate matrices although one parameter holds them: the update of Muon is another one
// for the matrix of all their rows.
std::vector<Tensor> hidden_matrices(const nn::GptConfig& config, const nn::ParameterStore& store);

}  // namespace heed::train
