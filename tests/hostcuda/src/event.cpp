#include <chrono>

#include "src/device.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

std::set<cudaEvent_t>& events() {
  static auto* events = new std::set<cudaEvent_t>;
  return *events;
}
bool is_event(cudaEvent_t event) { return events().count(event) != 0; }

double milliseconds_now() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The emulation does not wait for an event that a graph records.
cudaError_t refuse_external() { return fail(cudaErrorNotSupported); }

// An event of a capture stands for nodes of a graph; nobody can wait for it now.
cudaError_t refuse_captured(CUevent_st& event) {
  event.capture->is_invalid = true;
  return fail(cudaErrorCapturedEvent);
}

}  // namespace

std::vector<std::string> live_events() {
  if (events().empty()) return {};
  return {format("%zu events", events().size())};
}

void forget_captured_events(const CUgraph_st& capture) {
  for (cudaEvent_t event : events()) {
    if (event->capture == &capture) event->capture = nullptr;
  }
}

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  (*event)->flags = flags;
  events().insert(*event);
  return result();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(runtime_lock);
  if (events().erase(event) == 0) return fail(cudaErrorInvalidResourceHandle);
  delete event;
  return result();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Guard guard(runtime_lock);
  if (!is_event(event) || !is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = stream_of(handle);
  event->is_external = false;
  event->capture = stream.capture;
  if (stream.capture != nullptr) {
    event->captured_nodes = stream.last_nodes;
    return result();
  }
  event->recording = std::make_shared<Recording>(Recording{handle});
  return enqueue(handle, {"cudaEventRecord",
                          [recording = event->recording] {
                            recording->is_reached = true;
                            recording->milliseconds = milliseconds_now();
                          },
                          nullptr});
}

// In a captured stream, an external record becomes a node that records the event in each launch of the graph.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  if (flags == cudaEventRecordDefault) return cudaEventRecord(event, handle);
  const Guard guard(runtime_lock);
  if (!is_event(event) || !is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = stream_of(handle);
  if (flags != cudaEventRecordExternal || stream.capture == nullptr) return fail(cudaErrorInvalidValue);
  event->capture = nullptr;
  event->is_external = true;
  capture(stream, {"cudaEventRecordWithFlags",
                   [event, handle] {
                     if (!is_event(event)) return report("stream", "a graph records an event that was destroyed");
                     event->recording = std::make_shared<Recording>(Recording{handle, true, milliseconds_now()});
                   },
                   nullptr});
  return result();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Guard guard(runtime_lock);
  if (!is_event(event) || !is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  if (event->is_external) return refuse_external();
  CUstream_st& stream = stream_of(handle);
  if (event->capture != nullptr) {
    // Brings the stream into the capture. It cannot be in another one, and the default stream in none.
    if (handle == nullptr || (stream.capture != nullptr && stream.capture != event->capture)) {
      event->capture->is_invalid = true;
      return fail(cudaErrorStreamCaptureIsolation);
    }
    stream.capture = event->capture;
    stream.last_nodes.insert(event->captured_nodes.begin(), event->captured_nodes.end());
    return result();
  }
  if (event->recording == nullptr) return result();  // nothing to wait for
  if (stream.capture != nullptr) {
    // A graph cannot wait for what lies outside of it.
    stream.capture->is_invalid = true;
    return fail(cudaErrorStreamCaptureIsolation);
  }
  return enqueue(handle, {"cudaStreamWaitEvent", nullptr, event->recording});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard(runtime_lock);
  if (!is_event(event)) return fail(cudaErrorInvalidResourceHandle);
  if (event->is_external) return refuse_external();
  if (event->capture != nullptr) return refuse_captured(*event);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  if (event->recording != nullptr) finish(*event->recording);
  return result();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(runtime_lock);
  if (!is_event(event)) return fail(cudaErrorInvalidResourceHandle);
  if (event->is_external) return refuse_external();
  if (event->capture != nullptr) return refuse_captured(*event);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  const bool is_reached = event->recording == nullptr || event->recording->is_reached;
  if (!is_reached && coin_says_yes()) finish(*event->recording);  // for those who ask until it is done
  return is_reached ? result() : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Guard guard(runtime_lock);
  if (!is_event(begin) || !is_event(end)) return fail(cudaErrorInvalidResourceHandle);
  for (const CUevent_st* event : {begin, end}) {
    if (event->recording == nullptr || (event->flags & cudaEventDisableTiming) != 0) {
      return fail(cudaErrorInvalidResourceHandle);
    }
    if (!event->recording->is_reached) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>(end->recording->milliseconds - begin->recording->milliseconds);
  return result();
}
