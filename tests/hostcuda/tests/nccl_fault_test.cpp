// The emulated NCCL: each fault is reported on the ranks, and none of them waits for ever.
#include "tests/nccl_test.hpp"

namespace hostcuda::test {
namespace {

class NcclFaults : public NcclTest {
 protected:
  bool is_last() const { return rank == ranks - 1; }
  static ncclResult_t error_of(ncclComm_t comm) {
    ncclResult_t error = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    return error;
  }
  ncclResult_t all_reduce(const float* from, float* to, size_t count) const {
    return ncclAllReduce(from, to, count, ncclFloat32, ncclSum, comm, stream);
  }
  // One report, of this kind and with this text.
  static ::testing::AssertionResult only_reported(const std::string& kind_and_text) {
    const std::string found = reports();
    if (found.find('\n') + 1 != found.size()) return ::testing::AssertionFailure() << "wanted one report:\n" << found;
    return holds(found, kind_and_text);
  }

  Communicator comm;
  Stream stream;
  const DeviceArray<float> zeros{std::vector<float>(64, 0)};
  const DeviceArray<float> target{std::vector<float>(64, 0)};
};

// ---- Ranks that do not make the same call: the last is the odd one
class NcclDisagreement : public NcclFaults {
 protected:
  void SetUp() override {
    if (ranks == 1) GTEST_SKIP() << "one rank agrees with itself";
  }
  void expect_both_named(const std::string& first, const std::string& last) {
    const std::string found = reports();
    EXPECT_TRUE(holds(found, "nccl: the ranks do not make the same call. rank 0: " + first));
    EXPECT_TRUE(holds(found, "; rank " + std::to_string(ranks - 1) + ": " + last));
    EXPECT_EQ(error_of(comm), ncclInvalidUsage);
    EXPECT_EQ(all_reduce(zeros.data(), target.data(), 1), ncclInvalidUsage) << "it stays";
    EXPECT_TRUE(nothing_reported());
  }
};

TEST_F(NcclDisagreement, Count) {
  EXPECT_EQ(all_reduce(zeros.data(), target.data(), is_last() ? 9 : 8), ncclSuccess);
  expect_both_named("ncclAllReduce, 8 of ncclFloat32, ncclSum", "ncclAllReduce, 9 of ncclFloat32, ncclSum");
}

TEST_F(NcclDisagreement, Type) {
  EXPECT_EQ(ncclAllGather(zeros.data(), target.data(), 4, is_last() ? ncclInt32 : ncclFloat32, comm, stream),
            ncclSuccess);
  expect_both_named("ncclAllGather, 4 of ncclFloat32", "ncclAllGather, 4 of ncclInt32");
}

TEST_F(NcclDisagreement, Operation) {
  EXPECT_EQ(ncclReduceScatter(zeros.data(), target.data(), 4, ncclFloat32, is_last() ? ncclMax : ncclSum, comm, stream),
            ncclSuccess);
  expect_both_named("ncclReduceScatter, 4 of ncclFloat32, ncclSum", "ncclReduceScatter, 4 of ncclFloat32, ncclMax");
}

TEST_F(NcclDisagreement, Root) {
  EXPECT_EQ(ncclBroadcast(zeros.data(), target.data(), 4, ncclFloat32, is_last() ? 1 : 0, comm, stream), ncclSuccess);
  expect_both_named("ncclBroadcast, 4 of ncclFloat32, from rank 0", "ncclBroadcast, 4 of ncclFloat32, from rank 1");
}

TEST_F(NcclDisagreement, OrderOfCalls) {
  set_streams(Streams::lazy);
  for (const bool reduces : {!is_last(), is_last()}) {
    EXPECT_EQ(reduces ? all_reduce(zeros.data(), target.data(), 4)
                      : ncclAllGather(zeros.data(), target.data(), 4, ncclFloat32, comm, stream),
              ncclSuccess);
  }
  expect_both_named("ncclAllReduce, 4 of ncclFloat32, ncclSum, call 0", "ncclAllGather, 4 of ncclFloat32, call 0");
}

TEST_F(NcclDisagreement, OrderOfCommunicators) {
  set_streams(Streams::lazy);
  Communicator other;
  const ncclComm_t all[] = {comm, other};
  for (const size_t i : {is_last() ? 1 : 0, is_last() ? 0 : 1}) {
    EXPECT_EQ(ncclAllReduce(zeros.data(), target.data(), 4, ncclFloat32, ncclSum, all[i], stream), ncclSuccess);
  }
  EXPECT_TRUE(holds(reports(), "nccl: the ranks do not make the same call. rank 0: ncclAllReduce"));
}

TEST_F(NcclDisagreement, Beginning) {
  ncclUniqueId own;
  ncclComm_t unborn = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&own), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&unborn, ranks, own, rank), ncclInvalidUsage);
  EXPECT_TRUE(only_reported("nccl: ncclCommInitRank: not all processes gave the same id"));
  EXPECT_EQ(ncclCommInitRank(&unborn, ranks, shared_id(), 0), ncclInvalidUsage);
  EXPECT_TRUE(only_reported("nccl: ncclCommInitRank: two processes gave the same rank"));
  EXPECT_EQ(ncclCommInitRank(&unborn, ranks + 1, shared_id(), rank), ncclInvalidUsage);
  EXPECT_EQ(unborn, nullptr);
}

// ---- Memory
TEST_F(NcclFaults, MemoryOfTheLastRankIsTooSmall) {
  set_streams(Streams::lazy);
  const DeviceArray<float> small(std::vector<float>(7, 0));
  EXPECT_EQ(all_reduce(is_last() ? small.data() : zeros.data(), target.data(), 8), ncclSuccess);
  const std::string found = reports();
  if (is_last()) {
    EXPECT_TRUE(
        holds(found, "bounds: ncclAllReduce: what is sent, 32 bytes, leaves its memory: byte 0 of the 28-byte"));
    EXPECT_EQ(error_of(comm), ncclUnhandledCudaError);
  } else {
    const std::string last = std::to_string(ranks - 1);
    EXPECT_TRUE(holds(found, "nccl: the call cannot run on one of the ranks. rank " + last + ": ncclAllReduce"));
    EXPECT_EQ(error_of(comm), ncclRemoteError);
  }
}

TEST_F(NcclFaults, EachRangeIsLookedAt) {
  set_streams(Streams::lazy);
  const std::string leaves = " bytes, leaves its memory: ";
  EXPECT_EQ(ncclAllGather(zeros.data(), target.data(), 65, ncclFloat32, comm, stream), ncclSuccess);
  std::string found = reports();
  EXPECT_TRUE(holds(found, "bounds: ncclAllGather: what is sent, 260" + leaves));
  EXPECT_TRUE(holds(found, "bounds: ncclAllGather: what is received, " + std::to_string(ranks * 260) + leaves));
  EXPECT_EQ(ncclAllGather(zeros.data(), target.data(), 1, ncclFloat32, comm, stream), ncclUnhandledCudaError);
  const Communicator fresh;
  float host[8] = {};
  EXPECT_EQ(ncclReduceScatter(host, host, 8 / places, ncclFloat32, ncclSum, fresh, stream), ncclSuccess);
  found = reports();
  EXPECT_TRUE(holds(found, "bounds: ncclReduceScatter: what is sent, 32" + leaves + "host address"));
  EXPECT_TRUE(holds(found, "bounds: ncclReduceScatter: what is received, " + std::to_string(32 / ranks) + leaves));
}

TEST_F(NcclFaults, MemoryIsFreedBeforeAGraphRuns) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  {
    const DeviceArray<float> freed(std::vector<float>(8, 0));
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(all_reduce(freed.data(), freed.data(), 8), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  }
  cudaGraphLaunch(executable, stream);
  EXPECT_TRUE(holds(reports(), "leaves its memory: byte 0 of the freed 32-byte device allocation"));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(NcclFaults, SendsWhatWasNeverWritten) {
  const DeviceArray<float> fresh(8);
  ASSERT_EQ(cudaMemset(fresh.data(), 0, 7 * sizeof(float)), cudaSuccess);
  EXPECT_EQ(all_reduce(fresh.data(), target.data(), 8), ncclSuccess);
  if (kSeesAllAccesses) {
    EXPECT_TRUE(only_reported("uninit: ncclAllReduce: sends memory that was never written: byte 28 of the 32-byte"));
  }
  EXPECT_EQ(error_of(comm), ncclSuccess) << "as on a GPU, where nobody sees it";
}

TEST_F(NcclFaults, WhatIsReceivedCountsAsWritten) {
  const DeviceArray<float> received(4 * places);
  EXPECT_EQ(ncclAllGather(zeros.data(), received.data(), 3, ncclFloat32, comm, stream), ncclSuccess);
  std::vector<float> copy(4 * places);
  ASSERT_EQ(cudaMemcpy(copy.data(), received.data(), 12 * places, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
  ASSERT_EQ(cudaMemcpy(copy.data(), received.data(), 16 * places, cudaMemcpyDeviceToHost), cudaSuccess);
  if (kSeesAllAccesses) {
    EXPECT_TRUE(only_reported("uninit: a copy to the host reads memory that was never written"));
  }
}

TEST_F(NcclFaults, ReceivesWhereItSends) {
  const std::string overlap = ": what is received overlaps what is sent: byte ";
  float* memory = target.data();
  EXPECT_EQ(all_reduce(memory, memory + 7, 8), ncclSuccess);
  EXPECT_TRUE(only_reported("race: ncclAllReduce" + overlap + "28 of"));
  EXPECT_EQ(all_reduce(memory, memory + 8, 8), ncclSuccess) << "beside";
  EXPECT_EQ(ncclReduceScatter(memory, memory + 4 * my_place + 1, 4, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  EXPECT_TRUE(holds(reports(), "race: ncclReduceScatter" + overlap));
  EXPECT_EQ(ncclAllGather(memory + 1, memory, 4, ncclFloat32, comm, stream), ncclSuccess);
  EXPECT_TRUE(only_reported("race: ncclAllGather" + overlap + "0 of"));
  EXPECT_EQ(ncclBroadcast(memory, memory + 1, 4, ncclFloat32, 0, comm, stream), ncclSuccess);
  EXPECT_TRUE(rank == 0 ? only_reported("race: ncclBroadcast" + overlap + "4 of") : nothing_reported());
  EXPECT_TRUE(nothing_reported());
}

// ---- Communicators and arguments
TEST_F(NcclFaults, CommunicatorsThatHaveEnded) {
  ncclComm_t destroyed = Communicator().release(), aborted = Communicator().release();
  ASSERT_EQ(ncclCommDestroy(destroyed), ncclSuccess);
  ASSERT_EQ(ncclCommAbort(aborted), ncclSuccess);
  float* memory = target.data();
  int count = 0;
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, destroyed, stream), ncclInvalidArgument);
  EXPECT_TRUE(only_reported("nccl: ncclAllReduce: the communicator was ended by ncclCommDestroy"));
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, aborted, stream), ncclInvalidArgument);
  EXPECT_TRUE(only_reported("nccl: ncclAllReduce: the communicator was ended by ncclCommAbort"));
  EXPECT_EQ(ncclCommDestroy(aborted), ncclInvalidArgument);
  EXPECT_TRUE(only_reported("nccl: ncclCommDestroy: the communicator was ended by ncclCommAbort"));
  EXPECT_EQ(ncclCommCount(reinterpret_cast<ncclComm_t>(&count), &count), ncclInvalidArgument);
  EXPECT_TRUE(only_reported("nccl: ncclCommCount: that is no communicator"));
  EXPECT_EQ(ncclCommCount(nullptr, &count), ncclInvalidArgument);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclFaults, AGraphOutlivesItsCommunicator) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  {
    const Communicator shorter;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(zeros.data(), target.data(), 8, ncclFloat32, ncclSum, shorter, stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  }
  EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_TRUE(only_reported("nccl: a graph that was captured with ncclAllReduce: the communicator was ended by"));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(NcclFaults, AnAbortGivesUpWhatHasNotRun) {
  set_streams(Streams::lazy);
  ncclComm_t aborted = Communicator().release();
  const DeviceValue kept(5.0f), one(1.0f);
  EXPECT_EQ(ncclAllReduce(one.data(), kept.data(), 1, ncclFloat32, ncclSum, aborted, stream), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(aborted), ncclSuccess);
  EXPECT_EQ(kept.values()[0], 5.0f);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclFaults, TheEndOfACommunicatorWaitsForItsCalls) {
  set_streams(Streams::lazy);
  const DeviceValue sum(1.0f);
  {
    const Communicator shorter;
    EXPECT_EQ(ncclAllReduce(sum.data(), sum.data(), 1, ncclFloat32, ncclSum, shorter, stream), ncclSuccess);
  }
  EXPECT_EQ(sum.values()[0], static_cast<float>(ranks));
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclFaults, ArgumentsThatNcclRefuses) {
  float* memory = target.data();
  const auto with = [&](int type, int op, size_t count) {
    return ncclAllReduce(memory, memory, count, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), comm,
                         stream);
  };
  EXPECT_EQ(with(6, ncclSum, 1), ncclInvalidArgument) << "f16";
  EXPECT_EQ(with(ncclFloat32, 5, 1), ncclInvalidArgument);
  EXPECT_EQ(with(ncclFloat32, ncclSum, size_t{1} << 62), ncclInvalidArgument) << "more bytes than size_t has";
  EXPECT_TRUE(holds(ncclGetLastError(comm), "ncclAllReduce: 4611686018427387904 elements"));
  EXPECT_EQ(ncclBroadcast(memory, memory, 1, ncclFloat32, ranks, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(memory, memory, 1, ncclFloat32, -1, comm, stream), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, nullptr, stream), ncclInvalidArgument);
  cudaStream_t destroyed = nullptr;
  ASSERT_EQ(cudaStreamCreate(&destroyed), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(destroyed), cudaSuccess);
  EXPECT_EQ(ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, destroyed), ncclUnhandledCudaError);
  ncclComm_t unborn = nullptr;
  EXPECT_EQ(ncclCommInitRank(&unborn, ranks, ncclUniqueId{}, ranks), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&unborn, 0, ncclUniqueId{}, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(nullptr, ranks, ncclUniqueId{}, rank), ncclInvalidArgument);
  EXPECT_EQ(error_of(comm), ncclSuccess);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(NcclFaults, TheDefaultStream) {
  forbid_default_stream = true;
  EXPECT_EQ(ncclAllReduce(zeros.data(), target.data(), 8, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_TRUE(only_reported("stream: work on the default stream: ncclAllReduce"));
}

TEST_F(NcclFaults, BeginsAndEndsOutsideOfCaptures) {
  ncclComm_t unborn = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(ncclCommInitRank(&unborn, ranks, ncclUniqueId{}, rank), ncclUnhandledCudaError);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclUnhandledCudaError);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
}

}  // namespace
}  // namespace hostcuda::test
