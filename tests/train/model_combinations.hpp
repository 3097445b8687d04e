// Models that differ in every key: the values of each key, and few configs in which every two of them occur together.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "autograd/core/philox.hpp"
#include "tests/support/covering_array.hpp"
#include "tests/train/tiny.hpp"

namespace heed::test {

using Overrides = std::vector<std::string>;
// What a config varies, independently of the others: each of its values is some keys.
using Factor = std::vector<Overrides>;

// The factors of a model, but for muP, which not every optimizer allows. Keys that only have an effect together are
// one factor.
inline std::vector<Factor> model_factors() {
  return {
      {{"attention_only=false", "activation=gelu", "d_ff=20"},
       {"activation=gelu_erf", "d_ff=20"},
       {"activation=relu", "d_ff=20"},
       {"activation=relu2", "d_ff=20"},
       {"activation=silu", "d_ff=20"},
       {"activation=swiglu", "d_ff=20"},
       {"activation=geglu", "d_ff=20"},
       {"attention_only=true"}},
      {{"position=learned"},
       {"position=sinusoidal"},
       {"position=alibi"},
       {"position=none"},
       {"position=rope", "rope_scaling=none"},
       {"position=rope", "rope_fraction=0.5"},
       {"position=rope", "rope_scaling=linear", "rope_scaling_factor=2"},
       {"position=rope", "rope_scaling=llama3", "rope_scaling_factor=2", "rope_original_seq_len=16", "rope_base=50"}},
      {{"norm_position=pre"}, {"norm_position=post"}, {"norm_position=sandwich"}},
      {{"num_kv_heads=4"}, {"num_kv_heads=2"}, {"num_kv_heads=1"}},
      {{"sliding_window=0"}, {"sliding_window=3"}, {"sliding_window=3", "window_pattern=LS"}},
      {{"norm=layer"}, {"norm=rms"}},
      {{"norm_gain=true"}, {"norm_gain=false"}},
      {{"qk_norm=false"}, {"qk_norm=true"}},
      {{"embedding_norm=false"}, {"embedding_norm=true"}},
      {{"bias=true"}, {"bias=false"}},
      {{"tie_embeddings=true"}, {"tie_embeddings=false"}},
      {{"zero_init_projections=false"}, {"zero_init_projections=true"}},
      {{"logit_softcap=0"}, {"logit_softcap=3"}},
      {{}, {"document_separator=a"}},
      {{"model.dropout=0"}, {"model.dropout=0.2"}},
      {{"attention_dropout=0"}, {"attention_dropout=0.2"}},
      {{"recompute=false"}, {"recompute=true"}},
  };
}

// A tiny model of head size 8, which the mma kernels of attention take in bf16, trained on the text of write_text().
inline Overrides combination_base(const std::filesystem::path& text) {
  return {"source=text", "data.path=" + text.string(), "d_model=32", "num_heads=4", "batch_size=4"};
}

// Eight different characters in no order: several documents in most sequences, if one character separates them.
inline void write_text(const std::filesystem::path& path) {
  const RandomStream random{.seed = 7, .site = random_site(RandomDomain::init), .step = 0};
  std::ofstream file(path);
  for (uint64_t i = 0; i < 600; ++i) file << "abcdefgh"[random.word(i) % 8];
}

// Few lists of overrides in which every two values of two factors occur together.
inline std::vector<Overrides> covering_combinations(const std::vector<Factor>& factors) {
  std::vector<size_t> counts;
  for (const Factor& factor : factors) counts.push_back(factor.size());
  std::vector<Overrides> combinations;
  const CoveringArray array(counts);
  for (const std::vector<size_t>& row : array.rows()) {
    Overrides& combination = combinations.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      const Overrides& value = factors[i][row[i]];
      combination.insert(combination.end(), value.begin(), value.end());
    }
  }
  return combinations;
}

}  // namespace heed::test
