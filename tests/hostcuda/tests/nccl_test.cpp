// The emulated NCCL: what its collectives compute, in each type, in place and not, and in graphs and groups.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/nccl_test.hpp"

namespace hostcuda::test {
namespace {

template <class T>
constexpr ncclDataType_t kType = ncclFloat32;
template <>
constexpr ncclDataType_t kType<double> = ncclFloat64;
template <>
constexpr ncclDataType_t kType<__nv_bfloat16> = ncclBfloat16;
template <>
constexpr ncclDataType_t kType<int32_t> = ncclInt32;
template <>
constexpr ncclDataType_t kType<int64_t> = ncclInt64;
template <>
constexpr ncclDataType_t kType<uint8_t> = ncclUint8;

// The last one goes through MPI in two pieces.
template <class T>
constexpr size_t kSizes[] = {1, 1000, 270001 / sizeof(T)};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclMax, ncclMin};

// Sums of these are rounded, and depend on the order, in each type of floating point.
template <class T>
T value_of(size_t rank, size_t i) {
  const auto mixed = static_cast<uint32_t>((rank * 7919 + i + 1) * 2654435761u);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(mixed / 3);
  else
    return T((static_cast<float>(mixed >> 8) - 7e6f) * (i % 3 == 0 ? 1e-3f : 1e-5f));
}
template <class T>
std::vector<T> values_of(size_t rank, size_t size) {
  std::vector<T> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = value_of<T>(rank, i);
  return values;
}

// In the order of ranks, each step rounded.
template <class T>
T reduced(size_t ranks, size_t i, ncclRedOp_t op) {
  T all = value_of<T>(0, i);
  for (size_t rank = 1; rank < ranks; ++rank) {
    const T one = value_of<T>(rank, i);
    if (op == ncclSum) all = static_cast<T>(all + one);
    if (op == ncclMax) all = one > all ? one : all;
    if (op == ncclMin) all = one < all ? one : all;
  }
  return all;
}
template <class T>
std::vector<T> all_reduced(size_t ranks, size_t begin, size_t end, ncclRedOp_t op) {
  std::vector<T> values;
  for (size_t i = begin; i < end; ++i) values.push_back(reduced<T>(ranks, i, op));
  return values;
}

template <class T>
class NcclCollectives : public NcclTest {
 protected:
  Communicator comm;
  Stream stream;
};
using Types = ::testing::Types<float, double, __nv_bfloat16, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(NcclCollectives, Types);

TYPED_TEST(NcclCollectives, AllReduce) {
  for (const size_t size : kSizes<TypeParam>) {
    for (const ncclRedOp_t op : kOps) {
      const auto wanted = all_reduced<TypeParam>(this->places, 0, size, op);
      const DeviceArray<TypeParam> send(values_of<TypeParam>(this->my_place, size)), recv(size);
      ASSERT_EQ(ncclAllReduce(send.data(), recv.data(), size, kType<TypeParam>, op, this->comm, this->stream),
                ncclSuccess);
      EXPECT_TRUE(same_bits(recv.values(), wanted)) << size << " by " << op;
      EXPECT_TRUE(same_bits(send.values(), values_of<TypeParam>(this->my_place, size)));
      ASSERT_EQ(ncclAllReduce(send.data(), send.data(), size, kType<TypeParam>, op, this->comm, this->stream),
                ncclSuccess);
      EXPECT_TRUE(same_bits(send.values(), wanted)) << size << " by " << op << " in place";
    }
  }
  EXPECT_TRUE(nothing_reported());
}

TYPED_TEST(NcclCollectives, ReduceScatter) {
  for (const size_t size : kSizes<TypeParam>) {
    const auto wanted =
        all_reduced<TypeParam>(this->places, this->my_place * size, (this->my_place + 1) * size, ncclSum);
    const DeviceArray<TypeParam> send(values_of<TypeParam>(this->my_place, size * this->places)), recv(size);
    ASSERT_EQ(ncclReduceScatter(send.data(), recv.data(), size, kType<TypeParam>, ncclSum, this->comm, this->stream),
              ncclSuccess);
    EXPECT_TRUE(same_bits(recv.values(), wanted)) << size;
    TypeParam* mine = send.data() + this->my_place * size;
    ASSERT_EQ(ncclReduceScatter(send.data(), mine, size, kType<TypeParam>, ncclSum, this->comm, this->stream),
              ncclSuccess);
    auto in_place = values_of<TypeParam>(this->my_place, size * this->places);
    std::copy(wanted.begin(), wanted.end(), in_place.begin() + static_cast<std::ptrdiff_t>(this->my_place * size));
    EXPECT_TRUE(same_bits(send.values(), in_place)) << size << " in place";
  }
  EXPECT_TRUE(nothing_reported());
}

TYPED_TEST(NcclCollectives, AllGather) {
  for (const size_t size : kSizes<TypeParam>) {
    std::vector<TypeParam> wanted;
    for (size_t place = 0; place < this->places; ++place) {
      const auto part = values_of<TypeParam>(place, size);
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    const auto mine = values_of<TypeParam>(this->my_place, size);
    const DeviceArray<TypeParam> send(mine), recv(size * this->places), both(size * this->places);
    ASSERT_EQ(ncclAllGather(send.data(), recv.data(), size, kType<TypeParam>, this->comm, this->stream), ncclSuccess);
    EXPECT_TRUE(same_bits(recv.values(), wanted)) << size;
    TypeParam* part = both.data() + this->my_place * size;
    ASSERT_EQ(cudaMemcpy(part, mine.data(), size * sizeof(TypeParam), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(ncclAllGather(part, both.data(), size, kType<TypeParam>, this->comm, this->stream), ncclSuccess);
    EXPECT_TRUE(same_bits(both.values(), wanted)) << size << " in place";
  }
  EXPECT_TRUE(nothing_reported());
}

TYPED_TEST(NcclCollectives, BroadcastFromEachRank) {
  for (const size_t size : kSizes<TypeParam>) {
    for (int root = 0; root < this->ranks; ++root) {
      const auto wanted = values_of<TypeParam>(static_cast<size_t>(root), size);
      const bool sends = root == this->rank;
      // Only the root has something to send.
      const DeviceArray<TypeParam> send(values_of<TypeParam>(this->my_place, sends ? size : 1)), recv(size), both(size);
      ASSERT_EQ(ncclBroadcast(sends ? send.data() : nullptr, recv.data(), size, kType<TypeParam>, root, this->comm,
                              this->stream),
                ncclSuccess);
      EXPECT_TRUE(same_bits(recv.values(), wanted)) << size << " from " << root;
      if (sends) {
        ASSERT_EQ(cudaMemcpy(both.data(), wanted.data(), both.bytes(), cudaMemcpyHostToDevice), cudaSuccess);
      }
      ASSERT_EQ(ncclBroadcast(both.data(), both.data(), size, kType<TypeParam>, root, this->comm, this->stream),
                ncclSuccess);
      EXPECT_TRUE(same_bits(both.values(), wanted)) << size << " in place from " << root;
    }
  }
  EXPECT_TRUE(nothing_reported());
}

class Nccl : public NcclTest {
 protected:
  // What comes of `value` of each rank plus rank.
  float sum_over_ranks(float value) const {
    return value * static_cast<float>(ranks) + static_cast<float>(ranks * (ranks - 1) / 2);
  }
  ncclResult_t all_reduce(const DeviceArray<float>& from, const DeviceArray<float>& to) const {
    return ncclAllReduce(from.data(), to.data(), 1, ncclFloat32, ncclSum, comm, stream);
  }
  void set(const DeviceArray<float>& array, float value) const {
    const float mine = value + static_cast<float>(rank);
    ASSERT_EQ(cudaMemcpy(array.data(), &mine, sizeof(mine), cudaMemcpyHostToDevice), cudaSuccess);
  }

  Communicator comm;
  Stream stream;
};

TEST_F(Nccl, NoNumberIsLost) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceValue one(rank == 0 ? nan : 1.0f);
  ASSERT_EQ(all_reduce(one, one), ncclSuccess);
  EXPECT_TRUE(std::isnan(one.values()[0]));
}

TEST_F(Nccl, RunsAgainWithEachLaunchOfAGraph) {
  const DeviceArray<float> send(1), recv(1);
  set(send, 1);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(all_reduce(send, recv), ncclSuccess);
  ASSERT_EQ(all_reduce(recv, recv), ncclSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  for (const float value : {2.0f, 5.0f}) {
    set(send, value);
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(recv.values()[0], sum_over_ranks(value) * static_cast<float>(ranks));
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(Nccl, AGroupRunsAtItsEnd) {
  const DeviceArray<float> first(1), second(1);
  set(first, 3);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(first, second), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(all_reduce(second, second), ncclSuccess);
  set(first, 4);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(second.values()[0], sum_over_ranks(4) * static_cast<float>(ranks));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(Nccl, NothingIsSentOfNoElements) {
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  EXPECT_EQ(ncclBroadcast(nullptr, nullptr, 0, ncclFloat32, 0, comm, stream), ncclSuccess);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(Nccl, ACommunicatorOfOneRankNeedsNoOther) {
  if (rank != 0) return;
  ncclUniqueId id;
  ncclComm_t alone = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&alone, 1, id, 0), ncclSuccess);
  const DeviceValue send(7.0f), recv(0.0f);
  ASSERT_EQ(ncclAllReduce(send.data(), recv.data(), 1, ncclFloat32, ncclSum, alone, stream), ncclSuccess);
  EXPECT_EQ(recv.values()[0], 7.0f);
  EXPECT_EQ(ncclCommDestroy(alone), ncclSuccess);
}

TEST_F(Nccl, RanksMayBeInAnotherOrderThanThoseOfMpi) {
  const Communicator reversed(ranks, ranks - 1 - rank);
  int count = 0, reversed_rank = -1;
  EXPECT_EQ(ncclCommCount(reversed, &count), ncclSuccess);
  EXPECT_EQ(ncclCommUserRank(reversed, &reversed_rank), ncclSuccess);
  EXPECT_EQ(count, ranks);
  EXPECT_EQ(reversed_rank, ranks - 1 - rank);
  const DeviceValue send(rank), recv(-1);
  const DeviceArray<int> all(places);
  ASSERT_EQ(ncclBroadcast(send.data(), recv.data(), 1, ncclInt32, 0, reversed, stream), ncclSuccess);
  EXPECT_EQ(recv.values()[0], ranks - 1);
  ASSERT_EQ(ncclAllGather(send.data(), all.data(), 1, ncclInt32, reversed, stream), ncclSuccess);
  for (int i = 0; i < ranks; ++i) EXPECT_EQ(all.values()[static_cast<size_t>(i)], ranks - 1 - i);
}

TEST_F(Nccl, TellsWhatItIs) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
  ncclUniqueId one, other;
  ASSERT_EQ(ncclGetUniqueId(&one), ncclSuccess);
  ASSERT_EQ(ncclGetUniqueId(&other), ncclSuccess);
  EXPECT_NE(std::memcmp(&one, &other, sizeof(one)), 0);
  EXPECT_STRNE(ncclGetErrorString(ncclInvalidUsage), ncclGetErrorString(ncclInvalidArgument));
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  EXPECT_EQ(error, ncclSuccess);
}

TEST_F(Nccl, ACommunicatorIsLeftOverUntilItIsDestroyed) {
  const auto before = leaks();
  {
    const Communicator another;
    EXPECT_NE(leaks(), before);
  }
  EXPECT_EQ(leaks(), before);
}

TEST_F(Nccl, HasOnlyCommunicatorsThatBlock) {
  ncclComm_t configured = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&configured, ranks, shared_id(), rank, &config), ncclInvalidArgument);
  config.blocking = 1;
  EXPECT_EQ(ncclCommInitRankConfig(&configured, ranks, shared_id(), rank, &config), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(configured), ncclSuccess);
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&configured, ranks, shared_id(), rank, &config), ncclInvalidArgument);
}

TEST_F(Nccl, SeveralRanksNeedMpi) {
  if (has_mpi()) GTEST_SKIP() << "MPI is there";
  ncclComm_t unborn = nullptr;
  EXPECT_EQ(ncclCommInitRank(&unborn, 2, shared_id(), 0), ncclInvalidUsage);
}

}  // namespace
}  // namespace hostcuda::test
