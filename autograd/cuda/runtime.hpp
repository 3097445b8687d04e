// The CUDA side of a process: one device, one stream that all work goes to, in order.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "autograd/core/context.hpp"

namespace heed::cuda {

// Each makes what it gives when it is called for the first time. Throws DeviceError with status().problem where there
// is no device that can be used.
cudaStream_t stream();
cublasLtHandle_t blas();
int multiprocessors();

// Memory of the host that the device copies from and to by itself, while the host goes on.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// A point in the stream that the host can wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record();
  void wait() const;
  // Milliseconds between two points that were reached.
  float ms_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace heed::cuda
