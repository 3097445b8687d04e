// What a kernel needs in addition to its tensors: the device it runs on and scratch memory.
#pragma once

#include "autograd/core/buffer.hpp"
#include "autograd/core/dtype.hpp"

namespace heed {

class Context {
 public:
  explicit Context(Device device) : device_(device) {}
  Device device() const { return device_; }

 private:
  Device device_;
};

// The context of a device, one per process.
Context& context(Device device);
// Waits until all work queued on the device is done.
void synchronize(Device device);

// Uninitialised scratch memory for one kernel call. On CUDA it stays valid until the work queued before its destruction
// is done.
template <class T>
class Scratch {
 public:
  Scratch(const Context& context, int64_t count)
      : buffer_(count * static_cast<int64_t>(sizeof(T)), context.device(), MemoryCategory::workspace) {}
  T* data() const { return static_cast<T*>(buffer_.data()); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  Buffer buffer_;
};

}  // namespace heed
