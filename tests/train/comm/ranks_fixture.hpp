// The ranks that mpirun started, joined once: tests/support/mpi_main.cpp has started MPI.
#pragma once

#include <gtest/gtest.h>

#include "tests/train/tiny.hpp"
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

}  // namespace heed::test
