#include "src/stream.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "src/cublas_lt.hpp"
#include "src/device.hpp"
#include "src/device_memory.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"

namespace hostcuda {
namespace {

Streams mode_from_environment() {
  const char* text = std::getenv("HOSTCUDA_STREAMS");
  const std::string_view name = text == nullptr ? "eager" : text;
  if (name == "eager") return Streams::eager;
  if (name == "lazy") return Streams::lazy;
  if (name == "random") return Streams::random;
  give_up(format("HOSTCUDA_STREAMS=%s is none of eager, lazy, random", text));
}

Streams mode = mode_from_environment();
uint64_t coin_state = environment_number("HOSTCUDA_SCHEDULE", 1);

// Both live until the process has ended: the reports look at them then.
std::set<cudaStream_t>& streams() {
  static auto* streams = new std::set<cudaStream_t>;
  return *streams;
}
CUstream_st& default_stream() {
  static auto* stream = new CUstream_st;
  return *stream;
}

using LiveObjects = std::vector<std::string> (*)();
std::vector<LiveObjects>& further_leaks() {
  static auto* sources = new std::vector<LiveObjects>;
  return *sources;
}

std::shared_ptr<Recording>& last_collective() {
  static auto* last = new std::shared_ptr<Recording>;
  return *last;
}

// Two processes that ran collectives of two streams each in an order of its own would wait for each other for ever. On
// a GPU both streams go on.
void await_last_collective(cudaStream_t stream, Work& work) {
  auto reached = std::make_shared<Recording>(Recording{stream});
  work.awaited = std::exchange(last_collective(), reached);
  work.run = [run = std::move(work.run), reached] {
    run();
    reached->is_reached = true;
  };
}

std::function<void()> with_device_access(std::function<void()> run) {
  return [run = std::move(run)] {
    const DeviceAccess access;
    run();
  };
}

void run_first(CUstream_st& stream) {
  // An event that this work awaits was recorded before, so whatever that stream awaits in turn was recorded earlier
  // yet.
  if (stream.queue.front().awaited != nullptr) finish(*stream.queue.front().awaited);
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (work.run) work.run();
}

bool runs_at_once() { return mode == Streams::eager || (mode == Streams::random && coin_says_yes()); }

}  // namespace

std::recursive_mutex runtime_lock;
bool forbid_default_stream = false;

void set_streams(Streams new_mode, uint64_t seed) {
  const Guard guard(runtime_lock);
  finish_all_streams();
  mode = new_mode;
  coin_state = seed;
}

bool coin_says_yes() { return mode == Streams::random && next_random(coin_state) % 2 == 0; }

CUstream_st& stream_of(cudaStream_t stream) { return stream == nullptr ? default_stream() : *stream; }
bool is_stream(cudaStream_t stream) { return stream == nullptr || streams().count(stream) != 0; }
const std::set<cudaStream_t>& all_streams() { return streams(); }

void finish(CUstream_st& stream) {
  while (!stream.queue.empty()) run_first(stream);
}

void finish(const Recording& recording) {
  while (!recording.is_reached) run_first(stream_of(recording.stream));
}

void finish_blocking_streams() {
  for (cudaStream_t stream : streams()) {
    if ((stream->flags & cudaStreamNonBlocking) == 0) finish(*stream);
  }
  finish(default_stream());
}

void finish_all_streams() {
  const Guard guard(runtime_lock);
  for (cudaStream_t stream : streams()) finish(*stream);
  finish(default_stream());
}

void finish_collectives() {
  const Guard guard(runtime_lock);
  if (last_collective() != nullptr) finish(*last_collective());
}

cudaError_t enqueue(cudaStream_t handle, Work work) {
  if (!is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = stream_of(handle);
  if (stream.capture != nullptr) {
    capture(stream, std::move(work));
    return result();
  }
  if (handle == nullptr) {
    // The default stream waits for all that are not marked as non-blocking, also for one that is captured.
    for (cudaStream_t other : streams()) {
      if (other->capture == nullptr || (other->flags & cudaStreamNonBlocking) != 0) continue;
      other->capture->is_invalid = true;
      return fail(cudaErrorStreamCaptureImplicit);
    }
    if (forbid_default_stream) report("stream", "work on the default stream: " + work.name);
    finish_blocking_streams();
  }
  if (work.is_collective) await_last_collective(handle, work);
  stream.queue.push_back(std::move(work));
  // What a blocking stream is given later waits for the default stream, so that one never lags behind.
  if (handle == nullptr || runs_at_once()) finish(stream);
  return result();
}

cudaError_t enqueue_device(cudaStream_t stream, const std::string& name, std::function<void()> run) {
  return enqueue(stream, {name, with_device_access(std::move(run)), nullptr});
}

cudaError_t enqueue_collective(cudaStream_t stream, const std::string& name, std::function<void()> run) {
  return enqueue(stream, {name, with_device_access(std::move(run)), nullptr, true});
}

std::vector<std::string> unfinished_work() {
  std::vector<std::string> lines;
  for (cudaStream_t stream : streams()) {
    if (stream->queue.empty()) continue;
    lines.push_back(format("%zu pieces of work on a stream, the first of them: ", stream->queue.size()) +
                    stream->queue.front().name);
  }
  return lines;
}

void add_leaks(LiveObjects live_objects) { further_leaks().push_back(live_objects); }

std::vector<std::string> leaks() {
  const Guard guard(runtime_lock);
  std::vector<std::string> lines = unfinished_work();
  if (!streams().empty()) lines.push_back(format("%zu streams", streams().size()));
  for (const auto& more :
       {live_events(), live_graphs(), live_device_memory(), live_pinned_memory(), live_cublas_objects()}) {
    lines.insert(lines.end(), more.begin(), more.end());
  }
  for (const LiveObjects live_objects : further_leaks()) {
    const std::vector<std::string> more = live_objects();
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (stream == nullptr || flags > cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
  *stream = new CUstream_st;
  (*stream)->flags = flags;
  streams().insert(*stream);
  return result();
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);  // a priority out of range is moved into it
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (stream == nullptr || !is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  if (is_captured(stream)) return refuse_on_captured(stream);
  finish(*stream);
  streams().erase(stream);
  delete stream;
  return result();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  if (is_captured(stream)) return refuse_on_captured(stream);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  if (stream == nullptr) {
    finish_blocking_streams();
  } else {
    finish(*stream);
  }
  return result();
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Guard guard(runtime_lock);
  if (!is_stream(handle)) return fail(cudaErrorInvalidResourceHandle);
  if (is_captured(handle)) return refuse_on_captured(handle);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  CUstream_st& stream = stream_of(handle);
  if (!stream.queue.empty() && coin_says_yes()) run_first(stream);  // for those who ask until it is done
  return stream.queue.empty() ? result() : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  const Guard guard(runtime_lock);
  return enqueue(stream, {"a function of the host", [=] { function(argument); }, nullptr});
}

cudaError_t cudaDeviceSynchronize() {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
  finish_all_streams();
  return result();
}
