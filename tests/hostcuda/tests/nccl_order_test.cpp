// The emulated NCCL: the ranks run their streams when they like, each in another way, and nothing is mixed up or
// stuck.
#include <array>

#include "tests/nccl_test.hpp"

namespace hostcuda::test {
namespace {

constexpr size_t kSize = 100;

class NcclOrder : public NcclTest {
 protected:
  using Array = DeviceArray<int64_t>;

  // A stream's own way: sums a number of each rank, over and over.
  struct Lane {
    Stream stream;
    Array memory{std::vector<int64_t>(kSize, 1)};
    int64_t wanted = 1;
  };
  void all_reduce(Lane& lane, ncclComm_t comm) const {
    ASSERT_EQ(ncclAllReduce(lane.memory.data(), lane.memory.data(), kSize, ncclInt64, ncclSum, comm, lane.stream),
              ncclSuccess);
    lane.wanted *= ranks;
  }
  static void expect_sums(const Lane& lane) {
    ASSERT_EQ(cudaStreamSynchronize(lane.stream), cudaSuccess);
    EXPECT_TRUE(same_bits(lane.memory.values(), std::vector<int64_t>(kSize, lane.wanted)));
  }
};

TEST_F(NcclOrder, EachRankWaitsForAnotherStreamFirst) {
  set_streams(Streams::lazy);
  Communicator comm, other;
  std::array<Lane, 3> lanes;
  for (size_t i = 0; i < 6; ++i) all_reduce(lanes[i % 3], i % 2 == 0 ? comm : other);
  for (size_t i = 0; i < 3; ++i) expect_sums(lanes[(i + my_place) % 3]);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclOrder, EachRankThrowsItsOwnCoins) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    set_streams(Streams::random, seed * 10 + my_place);
    Communicator comm, other;
    std::array<Lane, 3> lanes;
    for (size_t i = 0; i < 12; ++i) all_reduce(lanes[i * i % 3], i % 2 == 0 ? comm : other);
    for (size_t i = 0; i < 3; ++i) expect_sums(lanes[(i + my_place) % 3]);
  }
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclOrder, BranchesOfAGraph) {
  Communicator comm;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    set_streams(Streams::random, seed * 10 + my_place);
    std::array<Lane, 3> lanes;
    const Event fork, join_one, join_two;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(lanes[0].stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork, lanes[0].stream), cudaSuccess);
    for (size_t i : {1, 2}) ASSERT_EQ(cudaStreamWaitEvent(lanes[i].stream, fork), cudaSuccess);
    for (size_t i = 0; i < 6; ++i) all_reduce(lanes[i % 3], comm);
    ASSERT_EQ(cudaEventRecord(join_one, lanes[1].stream), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(join_two, lanes[2].stream), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(lanes[0].stream, join_one), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(lanes[0].stream, join_two), cudaSuccess);
    ASSERT_EQ(cudaStreamEndCapture(lanes[0].stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    Lane outside;
    for (int launch = 0; launch < 2; ++launch) {
      ASSERT_EQ(cudaGraphLaunch(executable, lanes[0].stream), cudaSuccess);
      all_reduce(outside, comm);
    }
    for (Lane& lane : lanes) lane.wanted *= lane.wanted;  // twice
    expect_sums(rank == 0 ? outside : lanes[0]);
    expect_sums(rank == 0 ? lanes[0] : outside);
    expect_sums(lanes[1]);
    expect_sums(lanes[2]);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclOrder, OneRankWaitsForTheStreamAndTheOthersInMpi) {
  if (!has_mpi()) GTEST_SKIP() << "alone";
  set_streams(Streams::lazy);
  Communicator comm;
  Lane lane;
  all_reduce(lane, comm);
  if (rank == 0) expect_sums(lane);
  MPI_Barrier(MPI_COMM_WORLD);
  expect_sums(lane);
}

TEST_F(NcclOrder, OneRankWaitsForTheStreamAndTheOthersForANewCommunicator) {
  set_streams(Streams::lazy);
  const ncclUniqueId id = shared_id();
  ncclComm_t another = nullptr;
  Communicator comm;
  Lane lane;
  all_reduce(lane, comm);
  if (rank == 0) expect_sums(lane);
  EXPECT_EQ(ncclCommInitRank(&another, ranks, id, rank), ncclSuccess);
  expect_sums(lane);
  EXPECT_EQ(ncclCommDestroy(another), ncclSuccess);
}

// Run by itself (CMakeLists.txt), since it ends the process.
TEST_F(NcclOrder, DISABLED_ARankNeverComes) {
  Communicator comm;
  Lane lane;
  if (rank == 0) all_reduce(lane, comm);
  expect_sums(lane);
}

}  // namespace
}  // namespace hostcuda::test
