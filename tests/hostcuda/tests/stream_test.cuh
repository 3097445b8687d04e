// Streams, events and pinned memory that end with their scope.
#pragma once

#include "tests/kernel_test.cuh"

namespace hostcuda::test {

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&handle_, flags), cudaSuccess);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(handle_), cudaSuccess); }
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    EXPECT_EQ(cudaEventCreateWithFlags(&handle_, flags), cudaSuccess);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { EXPECT_EQ(cudaEventDestroy(handle_), cudaSuccess); }
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

class PinnedInt {
 public:
  PinnedInt() { EXPECT_EQ(cudaMallocHost(&value_, sizeof(int)), cudaSuccess); }
  PinnedInt(const PinnedInt&) = delete;
  PinnedInt& operator=(const PinnedInt&) = delete;
  ~PinnedInt() { EXPECT_EQ(cudaFreeHost(value_), cudaSuccess); }
  operator int*() const { return value_; }

 private:
  int* value_ = nullptr;
};

inline uint64_t next_seed() {  // another one each time
  static uint64_t seed = 0;
  return ++seed;
}

}  // namespace hostcuda::test
