// Accesses that leave their memory: each kernel must trip, its twin must not.
#include <csignal>
#include <memory>

#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Bounds = KernelTest;

constexpr int kWriteLine = __LINE__ + 1;
__global__ void write_kernel(float* out, int i) { out[i] = 1; }
constexpr int kReadLine = __LINE__ + 1;
__global__ void read_kernel(float* out, const float* in, int i) { out[0] = in[i]; }

TEST_F(Bounds, GlobalWrites) {
  DeviceArray<float> memory(std::vector<float>(100, 0));
  for (const int inside : {0, 99}) launch({}, write_kernel, memory.data(), inside);
  EXPECT_TRUE(nothing_reported());
  // The plain build finds what lies near behind the kernel, and does not know the line.
  for (const int outside : {100, 101, -1, -2}) {
    launch({}, write_kernel, memory.data(), outside);
    EXPECT_TRUE(reported("bounds", "write_kernel", kSeesAllAccesses ? kWriteLine : 0)) << outside;
  }
  for (const int far_outside : {1 << 20, -(1 << 20), 1 << 28}) {
    launch({}, write_kernel, memory.data(), far_outside);
    EXPECT_TRUE(reported("bounds", "write_kernel", kWriteLine)) << far_outside;
  }
}

TEST_F(Bounds, GlobalReads) {
  DeviceArray<float> memory(std::vector<float>(100, 0)), out(1);
  launch({}, read_kernel, out.data(), memory.data(), 99);
  EXPECT_TRUE(nothing_reported());
  launch({}, read_kernel, out.data(), memory.data(), 1 << 12);
  EXPECT_TRUE(reported("bounds", "read_kernel", kReadLine));
  if (!kSeesAllAccesses) return;
  for (const int outside : {100, -1}) {
    launch({}, read_kernel, out.data(), memory.data(), outside);
    EXPECT_TRUE(reported("bounds", "read_kernel", kReadLine));
  }
}

constexpr int kHalvesLine = __LINE__ + 2;
__global__ void halves_kernel(unsigned short* out, unsigned count) {
  if (threadIdx.x < count) out[threadIdx.x] = 1;
}

TEST_F(Bounds, MemoryMayEndInsideAWord) {
  DeviceArray<unsigned short> memory(7);
  launch({1, 32}, halves_kernel, memory.data(), 7u);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, halves_kernel, memory.data(), 8u);
  EXPECT_TRUE(reported("bounds", "halves_kernel", kSeesAllAccesses ? kHalvesLine : 0));
}

TEST_F(Bounds, UseAfterFree) {
  float* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 400), cudaSuccess);
  launch({}, write_kernel, memory, 3);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
  launch({}, write_kernel, memory, 3);
  EXPECT_TRUE(reported("bounds", "write_kernel", kWriteLine));
  DeviceArray<float> another(100);
  EXPECT_NE(another.data(), memory) << "addresses are not used again";
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(another.data() + 1), cudaErrorInvalidValue);
}

TEST_F(Bounds, AFaultIsTheErrorOfAllThatFollows) {
  DeviceArray<float> memory(std::vector<float>(1, 0));
  launch({}, write_kernel, memory.data(), 1 << 20);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(launch({}, write_kernel, memory.data(), 0), cudaErrorIllegalAddress);
  EXPECT_TRUE(reported("bounds", "write_kernel", kWriteLine));
  EXPECT_EQ(launch({}, write_kernel, memory.data(), 0), cudaSuccess);
}

constexpr int kDynamicLine = __LINE__ + 1;
__global__ void dynamic_kernel(int i) { (&shared_as<float>())[i] = 1; }

TEST_F(Bounds, DynamicSharedMemory) {
  for (const int inside : {0, 24}) launch({1, 1, 100}, dynamic_kernel, inside);
  EXPECT_TRUE(nothing_reported());
  for (const int outside : {25, -1}) {
    launch({1, 1, 100}, dynamic_kernel, outside);
    EXPECT_TRUE(reported("bounds", "dynamic_kernel", kSeesAllAccesses ? kDynamicLine : 0)) << outside;
  }
  launch({1, 1, 100}, dynamic_kernel, 64);  // behind it there is nothing
  EXPECT_TRUE(reported("bounds", "dynamic_kernel", kDynamicLine));
}

constexpr int kStaticLine = __LINE__ + 3;
__global__ void static_kernel(float* out, int i) {
  __shared__ float rows[2][32];
  rows[0][i] = 1;
  rows[1][0] = 2;
  out[0] = rows[0][i];
}

TEST_F(Bounds, StaticSharedMemory) {
  DeviceArray<float> out(1);
  launch({}, static_kernel, out.data(), 31);
  EXPECT_TRUE(nothing_reported());
  if (!kSeesAllAccesses) return;
  launch({}, static_kernel, out.data(), 32);  // of the next row
  EXPECT_TRUE(reported("bounds", "static_kernel", kStaticLine));
}

constexpr int kWideLine = __LINE__ + 1;
__global__ void wide_kernel(float* out) { *reinterpret_cast<float4*>(out) = float4{1, 2, 3, 4}; }
constexpr int kPairLine = __LINE__ + 1;
__global__ void pair_kernel(unsigned short* in, unsigned* out) { out[0] = *reinterpret_cast<unsigned*>(in); }

TEST_F(Bounds, MisalignedVectors) {
  DeviceArray<float> memory(8);
  DeviceArray<unsigned short> halves(std::vector<unsigned short>(8, 0));
  DeviceArray<unsigned> out(1);
  launch({}, wide_kernel, memory.data() + 4);
  launch({}, pair_kernel, halves.data() + 2, out.data());
  EXPECT_TRUE(nothing_reported());
  if (!kSeesAllAccesses) return;
  launch({}, wide_kernel, memory.data() + 1);
  EXPECT_TRUE(reported("bounds", "wide_kernel", kWideLine));
  launch({}, pair_kernel, halves.data() + 1, out.data());
  EXPECT_TRUE(reported("bounds", "pair_kernel", kPairLine));
}

thread_local float of_this_thread[4];

TEST_F(Bounds, KernelsTouchNoMemoryOfTheHost) {
  if (!kSeesAllAccesses) return;
  static float variable[4];
  const auto heap = std::make_unique<float[]>(4);
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  for (float* memory : {heap.get(), pinned, of_this_thread}) {
    launch({}, write_kernel, memory, 0);
    EXPECT_TRUE(reported("host", "write_kernel", kWriteLine));
  }
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  // Variables of the executable may be those of the device.
  launch({}, write_kernel, variable, 0);
  EXPECT_TRUE(nothing_reported());
}

constexpr int kForeignLine = __LINE__ + 5;
__global__ void foreign_kernel(unsigned long long* exchanged) {
  volatile int local = 0;
  exchanged[threadIdx.x] = reinterpret_cast<unsigned long long>(&local);
  __syncthreads();
  *reinterpret_cast<volatile int*>(exchanged[1 - threadIdx.x]) = 1;
}

TEST_F(Bounds, ThreadsTouchNoLocalVariablesOfOthers) {
  if (!kSeesAllAccesses) return;
  DeviceArray<unsigned long long> exchanged(2);
  launch({1, 2}, foreign_kernel, exchanged.data());
  EXPECT_TRUE(reported("bounds", "foreign_kernel", kForeignLine));
}

__global__ void deep_kernel(int depth, int* out) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  if (depth > 0) deep_kernel(depth - 1, out);
  out[0] = frame[depth % 4096];
}

TEST_F(Bounds, TheStackOfAThreadEnds) {
  DeviceArray<int> out(1);
  launch({}, deep_kernel, 4, out.data());
  EXPECT_TRUE(nothing_reported());
  launch({}, deep_kernel, 100, out.data());
  EXPECT_TRUE(reported("bounds", "deep_kernel", 0));
}

// The host, with a debugger's eyes: the process ends at the access.
using HostAccessDeathTest = KernelTest;

TEST_F(HostAccessDeathTest, HostCodeTouchesNoDeviceMemory) {
  if (!kSeesAllAccesses) return;
  quiet = false;
  DeviceArray<float> memory(std::vector<float>(10, 0));
  EXPECT_EXIT(memory.data()[3] = 1, ::testing::KilledBySignal(SIGSEGV),
              "host code touches byte 12 of the 40-byte device allocation .*bounds_test.cu");
  EXPECT_EXIT(std::memcpy(memory.data(), "abc", 4), ::testing::KilledBySignal(SIGSEGV), "host code touches byte 0 of");
}

}  // namespace
}  // namespace hostcuda::test
