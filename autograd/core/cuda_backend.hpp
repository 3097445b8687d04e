// What core asks of the CUDA backend. Where heed is built without it, no_cuda.cpp stands in, and all but status()
// throws DeviceError.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/core/memory_pool.hpp"

namespace heed::cuda {

struct DeviceInfo {
  std::string name;
  std::string architecture;  // "sm_90"
  int64_t memory_bytes = 0;
};
struct Status {
  std::string architectures;  // that there is code for: "sm_80, sm_90, PTX compute_90"; empty: built without CUDA
  std::vector<DeviceInfo> devices;
  std::string problem;  // why Device::cuda cannot be used; empty where it can
};
// Looks for devices when it is called for the first time. Throws nothing.
const Status& status();

// Why no process on this machine can use Device::cuda: heed is built without CUDA, or there is no device. Empty where
// there is a device. Unlike all else of this file it may be called before use_device().
std::string absence();

// To be called before all else of this file by one of several processes on a node: it uses the device of this number,
// or the only one that it sees. Where the node has fewer devices, status() says so. Throws GraphError where it is too
// late.
void use_device(int local_rank);
int device_index();
// Names the device among all of all nodes, as nvidia-smi does: "GPU-…".
std::string device_id();

MemorySource& memory_source();

// In the order of all other work on the device. On return the host may use its side again. Those that wait for the
// device, and synchronize(), throw ValueError for a token outside its range that an operation met before, which had
// gone on without it.
void copy_to_device(void* to, const void* from, int64_t bytes);
void copy_to_host(void* to, const void* from, int64_t bytes);
void copy_on_device(void* to, const void* from, int64_t bytes);
void fill(void* memory, int byte, int64_t bytes);
void synchronize();

// Whether products of f32 may cut their inputs to 10 bits of fraction (TF32) and run on tensor cores. Off at the start.
void set_tf32(bool on);

// Memory of the host that the device copies from and to by itself, while the host goes on.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Between this buffer from `offset` on and memory of the device, in the order of the stream; the host does not wait.
  void copy_to_device(void* to, int64_t offset, int64_t bytes) const;
  void copy_from_device(int64_t offset, const void* from, int64_t bytes);

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Work that is recorded once and then given to the device as a whole.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Records what `work` gives to the device, which does none of it yet. Memory that it allocates is kept for replays;
  // tensors that outlive it must have been allocated before. Nothing in it may wait for the device. Throws DeviceError,
  // and what work throws; nothing is recorded then.
  void record(const std::function<void()>& work);
  bool recorded() const { return executable_ != nullptr; }
  void replay() const;

 private:
  std::unique_ptr<MemoryReservation> memory_;
  void* executable_ = nullptr;
};

}  // namespace heed::cuda
