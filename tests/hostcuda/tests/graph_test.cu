// Captures: what becomes a graph, in which orders it runs, and what spoils it.
#include <thread>

#include "tests/stream_kernels.cuh"
#include "tests/stream_test.cuh"

namespace hostcuda::test {
namespace {

class Graphs : public KernelTest {
 protected:
  Graphs() : values_(std::vector<int>(4, 0)) {}

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  // The error of the end of the capture; the graph is of no interest.
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(graph == nullptr, error != cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return error;
  }
  void add(cudaStream_t stream, int summand, size_t i = 0) {
    launch({1, 1, 0, stream}, add_kernel, values_.data() + i, summand);
  }
  cudaGraphExec_t end_and_instantiate() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }

  const Stream stream_, side_;
  const Event fork_, join_;
  const DeviceArray<int> values_;
};

TEST_F(Graphs, RunAgainWhatWasCaptured) {
  const PinnedInt step;
  begin();
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaMemcpyAsync(values_.data() + 1, step, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  add(stream_, 3);
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  add(side_, 4, 2);
  ASSERT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
  const cudaGraphExec_t executable = end_and_instantiate();
  EXPECT_EQ(values_.values(), std::vector<int>(4, 0)) << "captured, not run";
  for (const Streams mode : {Streams::eager, Streams::lazy, Streams::random}) {
    set_streams(mode, next_seed());
    *step = static_cast<int>(mode);
    ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(values_.values()[1], static_cast<int>(mode)) << "pinned memory is read when the graph runs";
  }
  EXPECT_EQ(values_.values()[0], 9);
  EXPECT_EQ(values_.values()[2], 12);
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaErrorInvalidValue);
  EXPECT_TRUE(nothing_reported());
}

// Two branches write the same value and forget to say in which order: the random mode runs both orders.
TEST_F(Graphs, AMissingDependencyShows) {
  const auto results = [&](bool ordered) {
    const Event after;
    begin();
    EXPECT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
    add(stream_, 1);
    EXPECT_EQ(cudaEventRecord(after, stream_), cudaSuccess);
    if (ordered) cudaStreamWaitEvent(side_, after);
    launch({1, 1, 0, side_}, double_kernel, values_.data());
    EXPECT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
    const cudaGraphExec_t executable = end_and_instantiate();
    std::set<int> seen;
    for (int i = 0; i < 20; ++i) {
      set_streams(Streams::random, next_seed());
      EXPECT_EQ(cudaMemset(values_.data(), 0, 4), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
      seen.insert(values_.values()[0]);
    }
    set_streams(Streams::eager);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    return seen;
  };
  EXPECT_EQ(results(true), (std::set<int>{2}));
  EXPECT_EQ(results(false), (std::set<int>{1, 2}));
}

TEST_F(Graphs, AForkThatNobodyJoins) {
  const Stream third;
  begin();
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  add(side_, 1);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);

  begin();  // joined by way of a third stream, but not with all of its work
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  add(side_, 1);
  ASSERT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(third, join_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(join_, third), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
  add(side_, 1);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);

  begin();  // with all of it
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  add(side_, 1);
  ASSERT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(third, join_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(join_, third), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
}

// Each of these fails and spoils the capture.
TEST_F(Graphs, CallsThatWaitSpoilACapture) {
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);  // before any capture
  int pageable = 0;
  cudaGraph_t graph = nullptr;
  const auto spoils = [&](auto call, cudaError_t wanted) {
    begin();
    add(stream_, 1);
    EXPECT_EQ(call(), wanted);
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  };
  spoils([&] { return cudaStreamSynchronize(stream_); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaStreamQuery(stream_); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaStreamSynchronize(side_); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaEventSynchronize(fork_); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaEventQuery(fork_); }, cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaMemcpy(values_.data(), &pageable, 4, cudaMemcpyHostToDevice); },
         cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaMemcpyAsync(values_.data(), &pageable, 4, cudaMemcpyHostToDevice, stream_); },
         cudaErrorStreamCaptureUnsupported);
  spoils([&] { return cudaStreamWaitEvent(stream_, fork_); }, cudaErrorStreamCaptureIsolation);
  spoils(
      [&] {
        EXPECT_EQ(cudaEventRecord(join_, stream_), cudaSuccess);
        return cudaEventSynchronize(join_);
      },
      cudaErrorCapturedEvent);
  spoils(
      [&] {
        EXPECT_EQ(cudaEventRecord(join_, stream_), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(side_, join_), cudaSuccess);
        return cudaStreamEndCapture(side_, &graph);
      },
      cudaErrorStreamCaptureUnmatched);
  void* memory = nullptr;
  spoils([&] { return cudaMalloc(&memory, 4); }, cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(values_.values()[0], 0) << "nothing has run";
}

TEST_F(Graphs, TheModeSaysWhoseCallsAreUnsafe) {
  void* memory = nullptr;
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  const auto of_another_thread = [&] {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaMalloc(&memory, 4); }).join();
    if (error == cudaSuccess) cudaFree(memory);
    return error;
  };
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(of_another_thread(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(of_another_thread(), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(Graphs, TheDefaultStreamIsNotCaptured) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  const Stream blocking(cudaStreamDefault);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(values_.data(), 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);  // does not block, so there is no dependency
  EXPECT_EQ(cudaMemsetAsync(values_.data(), 0, 4, nullptr), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(Graphs, ExternalRecordsTakeTheTimeOfEachLaunch) {
  const Event begin_event, end_event;
  EXPECT_EQ(cudaEventRecordWithFlags(end_event, stream_, cudaEventRecordExternal), cudaErrorInvalidValue)
      << "outside of a capture";
  begin();
  ASSERT_EQ(cudaEventRecordWithFlags(end_event, stream_, cudaEventRecordExternal), cudaSuccess);
  add(stream_, 1);
  const cudaGraphExec_t executable = end_and_instantiate();
  float first = 0, second = 0;
  EXPECT_EQ(cudaEventRecordWithFlags(begin_event, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&first, begin_event, end_event), cudaErrorInvalidResourceHandle) << "not launched";
  for (float* const milliseconds : {&first, &second}) {
    ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(milliseconds, begin_event, end_event), cudaSuccess);
  }
  EXPECT_GT(first, 0);
  EXPECT_GT(second, first);
  EXPECT_EQ(cudaEventSynchronize(end_event), cudaErrorNotSupported) << "not emulated";
  EXPECT_EQ(cudaStreamWaitEvent(side_, end_event), cudaErrorNotSupported) << "not emulated";
  EXPECT_EQ(cudaEventRecord(end_event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end_event), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
}

TEST_F(Graphs, AnEventMustOutliveItsNode) {
  cudaGraphExec_t executable = nullptr;
  {
    const Event event;
    begin();
    ASSERT_EQ(cudaEventRecordWithFlags(event, stream_, cudaEventRecordExternal), cudaSuccess);
    executable = end_and_instantiate();
  }
  cudaGraphLaunch(executable, stream_);
  cudaDeviceSynchronize();
  const std::vector<Report> reports = take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].text, "a graph records an event that was destroyed");
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(Graphs, WorkOfAGraphIsCheckedLikeOther) {
  begin();
  add(stream_, 1, 4);  // past the end
  const cudaGraphExec_t executable = end_and_instantiate();
  EXPECT_TRUE(nothing_reported());
  cudaGraphLaunch(executable, stream_);
  EXPECT_TRUE(reported("bounds", "add_kernel", 0));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

}  // namespace
}  // namespace hostcuda::test
