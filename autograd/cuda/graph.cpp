// Stream-ordered work that the host does not wait for: copies of pinned memory, and captured graphs.
#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/runtime.hpp"

namespace heed::cuda {

PinnedBuffer::PinnedBuffer(int64_t bytes) : bytes_(bytes) {
  check(cudaMallocHost(&data_, static_cast<size_t>(bytes)), "allocate pinned memory of the host");
}
PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

void PinnedBuffer::copy_to_device(void* to, int64_t offset, int64_t bytes) const {
  const char* from = static_cast<const char*>(data_) + offset;
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()), "copy");
}
void PinnedBuffer::copy_from_device(int64_t offset, const void* from, int64_t bytes) {
  char* to = static_cast<char*>(data_) + offset;
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()), "copy");
}

namespace {

// Ends the stream capture on every exit path.
class Capture {
 public:
  Capture() {
    // Relaxed, because the pool may have to allocate device memory during the capture.
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "begin to record");
  }
  ~Capture() {
    if (!open_) return;
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream(), &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraphExec_t finish() {
    open_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream(), &graph), "end a recording");
    cudaGraphExec_t executable = nullptr;
    cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
    if (error == cudaErrorMemoryAllocation) {  // the pool may hold unused memory
      cudaGetLastError();
      release_cached_memory(Device::cuda);
      error = cudaGraphInstantiate(&executable, graph, 0);
    }
    cudaGraphDestroy(graph);
    check(error, "make a recording ready");
    return executable;
  }

 private:
  bool open_ = true;
};

}  // namespace

Graph::~Graph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

void Graph::record(const std::function<void()>& work) {
  require<GraphError>(!recorded(), "a graph is recorded once");
  auto memory = std::make_unique<MemoryReservation>(Device::cuda);
  Capture capture;
  work();
  executable_ = capture.finish();
  memory->close();
  memory_ = std::move(memory);
}

void Graph::replay() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream()), "replay a recording");
}

}  // namespace heed::cuda
