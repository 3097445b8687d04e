// The ranks that mpirun started, joined once: tests/support/mpi_main.cpp has started MPI.
#pragma once

#include <gtest/gtest.h>

#include "data/text/tokenizer.hpp"
#include "data/token_file.hpp"
#include "tests/train/tiny.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/communicator.hpp"
#include "train/comm/init.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::test {

inline comm::ProcessGroup& all_ranks() {
  static const std::unique_ptr<comm::ProcessGroup> ranks = comm::join_ranks(60);
  return *ranks;
}

// Values of any size, the same on all ranks, and other ones for each `seed`.
inline double value_at(int64_t i, int seed) { return static_cast<double>((i * 37 + seed * 101) % 199 - 99) / 64; }

inline Tensor values_of(int64_t count, int seed, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value_at(i, seed));
  return from_values({count}, dtype, values);
}

// The token file of the last rank loses its end between two steps: all ranks end with an error, none waits for another,
// and no weight has changed since the last whole step.
inline void expect_all_to_end_without_data(const std::string& device, const train::MakeCommunicator& make) {
  comm::ProcessGroup& ranks = all_ranks();
  const TemporaryFolder folder;  // of this rank
  const std::string path = (folder.path() / "tokens.h5").string();
  constexpr int64_t kTokens = 30'000;
  const data::ByteTokenizer tokenizer(false);
  data::TokenFileWriter writer(path, tokenizer, 0);
  writer.append(std::vector<int32_t>(kTokens, 'a'));
  writer.finish({kTokens - 2000, 1000, 1000}, {"a.txt", kTokens, "00000000feedbeef", "test 1"});
  train::Trainer trainer(tiny_config({"source=tokens", "data.path=" + path, "batch_size=8", "device=" + device}), ranks,
                         make);
  trainer.train_step();
  if (ranks.rank() == ranks.size() - 1) std::filesystem::resize_file(path, 3000);
  std::vector<double> before;
  const auto weights = [&] { return trainer.buckets().whole_weights(0).values(); };
  const auto train_on = [&] {
    for (int i = 0; i < 4; ++i) {  // on CUDA the next batch is there already
      before = weights();
      trainer.train_step();
    }
  };
  if (ranks.size() == 1) {
    EXPECT_THROW(train_on(), DataError);
  } else {
    EXPECT_THROW(train_on(), comm::CollectiveError);
  }
  EXPECT_EQ(weights(), before);
  EXPECT_EQ(trainer.optimizer().steps(), trainer.step());
}

}  // namespace heed::test
