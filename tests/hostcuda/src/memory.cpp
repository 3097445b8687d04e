// cudaMalloc and its like, and copies.
#include <cstdlib>
#include <cstring>
#include <map>

#include "src/access.hpp"
#include "src/device.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/shared_memory.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

std::map<const char*, size_t>& pinned() {  // begin -> bytes; lives until the process has ended
  static auto* pinned = new std::map<const char*, size_t>;
  return *pinned;
}

bool is_pinned(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  const auto behind = pinned().upper_bound(byte);
  if (behind == pinned().begin()) return false;
  const auto [begin, bytes] = *std::prev(behind);
  return byte < begin + bytes;
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool to_device, from_device;
};

// When its turn comes on the stream.
void run_copy(const Copy& copy) {
  for (const auto& [memory, is_on_device] :
       {std::pair{static_cast<const void*>(copy.to), copy.to_device}, std::pair{copy.from, copy.from_device}}) {
    if (!is_on_device || is_live(memory, copy.bytes)) continue;
    report("bounds", "cudaMemcpyAsync runs after its memory was freed: " + describe(memory));
    return;
  }
  if (copy.from_device && !copy.to_device) {
    const void* unwritten = never_written(copy.from, copy.bytes);
    if (unwritten != nullptr)
      report("uninit", "a copy to the host reads memory that was never written: " + describe(unwritten));
  }
  if (copy.to_device && copy.from_device) {
    memory_copied(copy.to, copy.from, copy.bytes);
  } else if (copy.to_device) {
    memory_written(copy.to, copy.bytes);
  }
  std::memmove(copy.to, copy.from, copy.bytes);
}

// Synchronous calls use the default stream by their nature, which is no fault.
class DefaultStreamAllowed {
 public:
  DefaultStreamAllowed() : before_(std::exchange(forbid_default_stream, false)) {}
  DefaultStreamAllowed(const DefaultStreamAllowed&) = delete;
  DefaultStreamAllowed& operator=(const DefaultStreamAllowed&) = delete;
  ~DefaultStreamAllowed() { forbid_default_stream = before_; }

 private:
  bool before_;
};

cudaMemcpyKind kind_of(const Copy& copy) {
  if (copy.from_device) return copy.to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  return copy.to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

}  // namespace

std::vector<std::string> live_pinned_memory() {
  std::vector<std::string> lines;
  for (const auto& [begin, bytes] : pinned()) lines.push_back(format("%zu bytes of pinned memory", bytes));
  return lines;
}

}  // namespace hostcuda

using namespace hostcuda;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  *memory = bytes == 0 ? nullptr : allocate_device(bytes);
  return bytes == 0 || *memory != nullptr ? result() : fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* memory) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  if (memory == nullptr) return result();
  finish_all_streams();
  return free_device(memory) ? result() : fail(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = require_device(); error != cudaSuccess) return error;
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  if (flags > cudaHostAllocPortable) return fail(cudaErrorInvalidValue);
  constexpr size_t kAlignment = 4096;
  *memory = bytes == 0 ? nullptr : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes == 0) return result();
  if (*memory == nullptr) return fail(cudaErrorMemoryAllocation);
  std::memset(*memory, kPoison, bytes);
  pinned()[static_cast<const char*>(*memory)] = bytes;
  return result();
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) { return cudaHostAlloc(memory, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* memory) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  if (memory == nullptr) return result();
  finish_all_streams();
  if (pinned().erase(static_cast<const char*>(memory)) == 0) return fail(cudaErrorInvalidValue);
  std::free(memory);
  return result();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return result();
  Copy copy{to, from, bytes, is_device(to), is_device(from)};
  if (kind != cudaMemcpyDefault && kind != kind_of(copy)) return fail(cudaErrorInvalidValue);
  if (copy.to_device && !is_live(to, bytes)) return fail(cudaErrorInvalidValue);
  if (copy.from_device && !is_live(from, bytes)) return fail(cudaErrorInvalidValue);

  // Memory of the host that is not pinned is copied while the call lasts: what is read at once, what is written at the
  // end of all that the stream has to do before. A graph has no such moment.
  const bool reads_pageable = !copy.from_device && !is_pinned(from);
  const bool writes_pageable = !copy.to_device && !is_pinned(to);
  if ((reads_pageable || writes_pageable) && is_captured(stream)) return refuse_on_captured(stream);
  std::shared_ptr<char[]> staged;
  if (reads_pageable) {
    staged = std::make_shared<char[]>(bytes);
    std::memcpy(staged.get(), from, bytes);
    copy.from = staged.get();
  }
  const cudaError_t error = enqueue_device(stream, "cudaMemcpyAsync", [copy, staged] { run_copy(copy); });
  if (error == cudaSuccess && writes_pageable) finish(stream_of(stream));
  return error == cudaSuccess ? result() : error;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  const DefaultStreamAllowed allowed;
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Guard guard(runtime_lock);
  if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return result();
  if (!is_live(memory, bytes)) return fail(cudaErrorInvalidValue);
  return enqueue_device(stream, "cudaMemsetAsync", [=] {
    if (!is_live(memory, bytes)) {
      report("bounds", "cudaMemsetAsync runs after its memory was freed: " + describe(memory));
      return;
    }
    memory_written(memory, bytes);
    std::memset(memory, value, bytes);
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  const Guard guard(runtime_lock);
  if (const cudaError_t error = refuse_unsafe_in_capture(); error != cudaSuccess) return error;
  const DefaultStreamAllowed allowed;
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
