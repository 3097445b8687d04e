// The interface of the CUDA backend to core. A build without CUDA links the stubs of no_cuda.cpp: all functions that
// need a device throw DeviceError there.
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
  std::string architectures;  // of the compiled kernels: "sm_80, sm_90, PTX compute_90"; empty: built without CUDA
  std::vector<DeviceInfo> devices;
  std::string problem;  // why Device::cuda cannot be used; empty if it can
};
// Searches for devices on the first call. Throws nothing.
const Status& status();

// Why no process on this machine can use Device::cuda: heed is built without CUDA, or there is no device. Empty if
// there is a device. Unlike all other functions of this file it may be called before use_device().
std::string absence();

// Selects the device of one of several processes on a node: the device with this number, or the only visible one. Must
// be called before all other functions of this file; throws GraphError if status() has already searched for devices
// under another number. If the node has too few devices, status() reports it.
void use_device(int local_rank);
int device_index();
// The globally unique identifier of the device, as nvidia-smi prints it: "GPU-…".
std::string device_id();

MemorySource& memory_source();

// Stream-ordered; the host buffer may be reused on return. copy_to_device(), copy_to_host() and synchronize() wait for
// the device, and throw ValueError if an earlier operation met a token outside its range (its kernel continued without
// that token).
void copy_to_device(void* to, const void* from, int64_t bytes);
void copy_to_host(void* to, const void* from, int64_t bytes);
void copy_on_device(void* to, const void* from, int64_t bytes);
void fill(void* memory, int byte, int64_t bytes);
void synchronize();

// Whether f32 GEMMs may reduce their inputs to TF32 (10 fraction bits) and run on tensor cores. Off by default.
void set_tf32(bool on);

// Pinned host memory: the device copies from and to it while the host continues.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Copies between this buffer at byte `offset` and device memory. Stream-ordered; the host does not wait.
  void copy_to_device(void* to, int64_t offset, int64_t bytes) const;
  void copy_from_device(int64_t offset, const void* from, int64_t bytes);

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// A CUDA graph: work that is captured once and then launched as a whole.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  // Captures the work that `work` queues; the device does not run it yet. Memory that `work` allocates is kept for
  // replays; tensors that outlive it must have been allocated before. `work` must not wait for the device. Throws
  // GraphError if a graph has been captured before, DeviceError, and what `work` throws; nothing is captured then.
  void record(const std::function<void()>& work);
  bool recorded() const { return executable_ != nullptr; }
  void replay() const;

 private:
  std::unique_ptr<MemoryReservation> memory_;
  void* executable_ = nullptr;
};

// Measures the GPU time of consecutive pieces of work (laps) with CUDA events; the host does not wait. A lap may end in
// a captured graph: each replay then records its event again, so the stopwatch must outlive the last replay.
class Stopwatch {
 public:
  Stopwatch() = default;
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start();                      // begins the first lap; not during capture
  void lap();                        // ends a lap and begins the next one
  void clear() { laps_ = 0; }        // graphs that record these laps must not be replayed afterwards
  std::vector<double> laps() const;  // seconds of each lap. Waits for the device.

 private:
  void record(size_t index);

  std::vector<void*> events_;  // the start, then the end of each lap; reused after clear()
  size_t laps_ = 0;
};

}  // namespace heed::cuda
