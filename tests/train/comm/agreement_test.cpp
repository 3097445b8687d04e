#include "train/comm/agreement.hpp"
#include "train/comm/init.hpp"

#include <gtest/gtest.h>

#include <new>

#include "autograd/core/check.hpp"

namespace heed::comm {
namespace {

// The exit codes of the README.
TEST(Agreement, EachErrorHasItsExitCode) {
  EXPECT_EQ(exit_code(ConfigError("")), 2);
  EXPECT_EQ(exit_code(DataError("")), 3);
  EXPECT_EQ(exit_code(CheckpointError("")), 4);
  EXPECT_EQ(exit_code(DeviceError("")), 5);
  EXPECT_EQ(exit_code(MemoryError("")), 5);
  EXPECT_EQ(exit_code(std::bad_alloc()), 5);
  EXPECT_EQ(exit_code(DivergedError("")), 6);
  EXPECT_EQ(exit_code(CommunicationError("")), 7);
  EXPECT_EQ(exit_code(GraphError("")), 1);
  EXPECT_EQ(exit_code(std::runtime_error("")), 1);
}

// Other ranks do not hear of it, so nothing is said in their name.
TEST(Agreement, OfOneRankPassesTheErrorOn) {
  const auto ranks = single_rank();
  EXPECT_THROW(check_on_all_ranks(*ranks, [] { throw DataError("torn"); }), DataError);
  EXPECT_NO_THROW(require_same_on_all_ranks(*ranks, "config", "a"));
}

}  // namespace
}  // namespace heed::comm
