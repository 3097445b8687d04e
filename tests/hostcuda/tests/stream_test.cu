// Streams and events in their three modes, and copies from and to the two kinds of host memory.
#include <cstring>

#include "tests/stream_kernels.cuh"
#include "tests/stream_test.cuh"

namespace hostcuda::test {
namespace {

using StreamOrder = KernelTest;
using Copies = KernelTest;

TEST_F(StreamOrder, EventsOrderStreams) {
  const Stream a, b;
  const Event event;
  DeviceArray<int> values(std::vector<int>(8, 0));
  const PinnedInt host;
  for (const Streams mode : {Streams::eager, Streams::lazy, Streams::random, Streams::random, Streams::random}) {
    set_streams(mode, next_seed());
    launch({1, 8, 0, a}, add_kernel, values.data(), 5);
    ASSERT_EQ(cudaEventRecord(event, a), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(b, event), cudaSuccess);
    launch({1, 8, 0, b}, double_kernel, values.data());
    ASSERT_EQ(cudaMemcpyAsync(host, values.data(), 4, cudaMemcpyDeviceToHost, b), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(values.data(), 0, values.bytes(), b), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    EXPECT_EQ(*host, 10);
  }
  EXPECT_TRUE(nothing_reported());
}

TEST_F(StreamOrder, ALazyStreamDoesOnlyWhatIsWaitedFor) {
  const Stream a, b;
  const Event event;
  DeviceArray<int> values(std::vector<int>(1, 0));
  const PinnedInt host;
  set_streams(Streams::lazy);
  *host = -1;
  launch({1, 1, 0, a}, add_kernel, values.data(), 1);
  ASSERT_EQ(cudaEventRecord(event, a), cudaSuccess);
  launch({1, 1, 0, a}, add_kernel, values.data(), 1);
  ASSERT_EQ(cudaMemcpyAsync(host, values.data(), 4, cudaMemcpyDeviceToHost, a), cudaSuccess);
  EXPECT_EQ(*host, -1) << "read before the stream was waited for";
  EXPECT_EQ(cudaStreamQuery(a), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);

  // b waits for the event, so for the first kernel and not for the second.
  ASSERT_EQ(cudaStreamWaitEvent(b, event), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, values.data(), 4, cudaMemcpyDeviceToHost, b), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(*host, 1);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(a), cudaErrorNotReady);
  ASSERT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  EXPECT_EQ(*host, 2);
}

// The fault that lazy and random streams are for.
TEST_F(StreamOrder, AMissingEventShows) {
  const Stream a, b;
  DeviceArray<int> values(std::vector<int>(1, 0));
  const PinnedInt host;
  const auto result_in = [&](Streams mode) {
    set_streams(mode);
    EXPECT_EQ(cudaMemset(values.data(), 0, 4), cudaSuccess);
    launch({1, 1, 0, a}, add_kernel, values.data(), 7);
    EXPECT_EQ(cudaMemcpyAsync(host, values.data(), 4, cudaMemcpyDeviceToHost, b), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    return *host;
  };
  EXPECT_EQ(result_in(Streams::eager), 7);
  EXPECT_EQ(result_in(Streams::lazy), 0);
}

TEST_F(StreamOrder, AnEventCountsByItsLastRecording) {
  const Stream a, b, c;
  const Event event;
  DeviceArray<int> values(std::vector<int>(1, 0));
  set_streams(Streams::lazy);
  ASSERT_EQ(cudaStreamWaitEvent(c, event), cudaSuccess);  // never recorded: nothing to wait for
  launch({1, 1, 0, a}, add_kernel, values.data(), 1);
  ASSERT_EQ(cudaEventRecord(event, a), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(c, event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, b), cudaSuccess);  // c still waits for a
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  launch({1, 1, 0, c}, double_kernel, values.data());
  ASSERT_EQ(cudaStreamSynchronize(c), cudaSuccess);
  EXPECT_EQ(values.values()[0], 2);
}

TEST_F(StreamOrder, EventsMeasureTime) {
  const Stream stream;
  const Event begin, end, untimed(cudaEventDisableTiming);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle) << "not recorded";
  set_streams(Streams::lazy);
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamOrder, TheDefaultStreamWaitsForThoseThatBlock) {
  const Stream blocking(cudaStreamDefault), other;
  DeviceArray<int> values(std::vector<int>(2, 0));
  set_streams(Streams::lazy);
  launch({1, 1, 0, blocking}, add_kernel, values.data(), 1);
  launch({1, 1, 0, other}, add_kernel, values.data() + 1, 1);
  launch({1, 2}, double_kernel, values.data());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(values.values(), (std::vector<int>{2, 1}));
}

TEST_F(StreamOrder, WorkOnTheDefaultStreamIsReported) {
  DeviceArray<int> values(std::vector<int>(1, 0));
  const Stream stream;
  forbid_default_stream = true;
  launch({1, 1, 0, stream}, add_kernel, values.data(), 1);
  EXPECT_EQ(cudaMemset(values.data(), 0, 4), cudaSuccess) << "has no stream to choose";
  EXPECT_TRUE(nothing_reported());
  launch({1, 1}, add_kernel, values.data(), 1);
  EXPECT_TRUE(reported("stream", "add_kernel", 0));
  EXPECT_EQ(cudaMemsetAsync(values.data(), 0, 4), cudaSuccess);
  EXPECT_EQ(take_reports().size(), 1u);
}

TEST_F(StreamOrder, HandlesThatAreGone) {
  DeviceArray<int> values(std::vector<int>(1, 0));
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(launch({1, 1, 0, stream}, add_kernel, values.data(), 1), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(values.data(), 0, 4, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamOrder, FunctionsOfTheHost) {
  const Stream stream;
  DeviceArray<int> values(std::vector<int>(1, 0));
  int calls = 0;
  set_streams(Streams::lazy);
  const auto count = [](void* argument) { ++*static_cast<int*>(argument); };
  ASSERT_EQ(cudaLaunchHostFunc(stream, count, &calls), cudaSuccess);
  EXPECT_EQ(calls, 0);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(calls, 1);
}

TEST_F(StreamOrder, LeaksAreNamed) {
  const std::vector<std::string> before = leaks();
  std::vector<std::string> during;
  {
    const Stream stream;
    const Event event;
    const PinnedInt host;
    const DeviceArray<int> values(std::vector<int>(1, 0));
    set_streams(Streams::lazy);
    launch({1, 1, 0, stream}, add_kernel, values.data(), 1);
    during = leaks();
  }
  const auto has = [&](std::string_view text) {
    for (const std::string& line : during) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("1 pieces of work on a stream, the first of them: kernel hostcuda::test::add_kernel"));
  EXPECT_TRUE(has("1 streams"));
  EXPECT_TRUE(has("1 events"));
  EXPECT_TRUE(has("4-byte device allocation"));
  EXPECT_TRUE(has("4 bytes of pinned memory"));
  EXPECT_EQ(leaks(), before);
}

// Memory that is not pinned is copied during the call, pinned memory when its turn comes.
TEST_F(Copies, OnlyPinnedMemoryIsReadLate) {
  const Stream stream;
  DeviceArray<int> values(2);
  const PinnedInt pinned;
  int pageable = 1;
  *pinned = 1;
  set_streams(Streams::lazy);
  ASSERT_EQ(cudaMemcpyAsync(values.data(), &pageable, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(values.data() + 1, pinned, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  pageable = 2;
  *pinned = 2;  // too early
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(values.values(), (std::vector<int>{1, 2}));
}

TEST_F(Copies, ToPageableMemoryWait) {
  const Stream stream;
  DeviceArray<int> values(std::vector<int>{3});
  int pageable = 0;
  set_streams(Streams::lazy);
  launch({1, 1, 0, stream}, add_kernel, values.data(), 4);
  ASSERT_EQ(cudaMemcpyAsync(&pageable, values.data(), 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(pageable, 7);
}

TEST_F(Copies, RefuseWhatIsNotTheirs) {
  DeviceArray<int> values(std::vector<int>{1, 2});
  int host[2] = {};
  EXPECT_EQ(cudaMemcpy(values.data(), host, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "past the end";
  EXPECT_EQ(cudaMemcpy(values.data(), host, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue) << "wrong direction";
  EXPECT_EQ(cudaMemcpy(host, values.data(), 8, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host[1], 2);
  EXPECT_EQ(cudaMemset(host, 0, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Copies, AfterTheirMemoryWasFreed) {
  const Stream stream;
  const PinnedInt pinned;
  *pinned = 3;
  auto values = std::make_unique<DeviceArray<int>>(1);
  set_streams(Streams::lazy);
  ASSERT_EQ(cudaMemcpyAsync(values->data(), pinned, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  values.reset();  // cudaFree waits for all streams, so this is in order
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
}

}  // namespace
}  // namespace hostcuda::test
