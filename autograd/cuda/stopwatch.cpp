// cuda::Stopwatch: CUDA events in heed's stream.
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/runtime.hpp"

namespace heed::cuda {
namespace {

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "create an event");
  return event;
}

// During capture, cudaEventRecordExternal makes the record a node of the graph; without this flag the event would only
// order captured work.
void record_event(cudaEvent_t event) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream(), &status), "query a stream");
  const bool is_captured = status != cudaStreamCaptureStatusNone;
  check(cudaEventRecordWithFlags(event, stream(), is_captured ? cudaEventRecordExternal : cudaEventRecordDefault),
        "record an event");
}

}  // namespace

Stopwatch::~Stopwatch() {
  for (void* event : events_) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void Stopwatch::record(size_t index) {
  while (events_.size() <= index) events_.push_back(new_event());
  record_event(static_cast<cudaEvent_t>(events_[index]));
}

void Stopwatch::start() { record(0); }

void Stopwatch::lap() {
  record(laps_ + 1);
  ++laps_;
}

std::vector<double> Stopwatch::laps() const {
  synchronize();
  std::vector<double> seconds;
  for (size_t i = 0; i < laps_; ++i) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(events_[i]),
                               static_cast<cudaEvent_t>(events_[i + 1])),
          "read the time of an event");
    seconds.push_back(milliseconds * 1e-3);
  }
  return seconds;
}

}  // namespace heed::cuda
