// Threads that wait for others that do not come, and lanes that do not agree.
#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Barrier = KernelTest;
using Warps = KernelTest;

constexpr int kBranchLine = __LINE__ + 2;
__global__ void branch_kernel(int* out, unsigned threads) {
  if (threadIdx.x < threads) __syncthreads();
  out[threadIdx.x] = 1;
}

TEST_F(Barrier, InABranchThatNotAllTake) {
  DeviceArray<int> out(64);
  launch({1, 64}, branch_kernel, out.data(), 64u);
  launch({1, 64}, branch_kernel, out.data(), 0u);
  EXPECT_TRUE(nothing_reported());
  for (const uint64_t seed : {0, 1, 2}) {
    set_schedule(seed);
    for (const unsigned threads : {1u, 32u, 63u}) {
      launch({1, 64}, branch_kernel, out.data(), threads);
      EXPECT_TRUE(reported("barrier", "branch_kernel", kBranchLine)) << threads;
    }
  }
}

constexpr int kFirstLine = __LINE__ + 3;
__global__ void two_barriers_kernel(int* out, unsigned divergent) {
  if (threadIdx.x % 2 < divergent) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

TEST_F(Barrier, TwoDifferentOnes) {
  DeviceArray<int> out(64);
  launch({1, 64}, two_barriers_kernel, out.data(), 0u);
  launch({1, 64}, two_barriers_kernel, out.data(), 2u);
  EXPECT_TRUE(nothing_reported());
  launch({1, 64}, two_barriers_kernel, out.data(), 1u);
  EXPECT_TRUE(reported("barrier", "two_barriers_kernel", kFirstLine));
}

constexpr int kExitLine = __LINE__ + 3;
__global__ void exit_kernel(int* out, unsigned exits) {
  if (threadIdx.x == exits) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST_F(Barrier, AfterAThreadHasExited) {
  DeviceArray<int> out(64);
  launch({1, 64}, exit_kernel, out.data(), 99u);
  EXPECT_TRUE(nothing_reported());
  for (const uint64_t seed : {0, 1, 2}) {
    set_schedule(seed);
    for (const unsigned exits : {0u, 31u, 63u}) {
      launch({1, 64}, exit_kernel, out.data(), exits);
      EXPECT_TRUE(reported("barrier", "exit_kernel", kExitLine)) << exits;
    }
  }
}

__global__ void trap_kernel(unsigned when) {
  if (threadIdx.x == when) __trap();
}

TEST_F(Barrier, Trap) {
  launch({1, 32}, trap_kernel, 99u);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, trap_kernel, 3u);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_TRUE(reported("trap", "trap_kernel", 0));
}

constexpr int kMaskLine = __LINE__ + 1;
__global__ void mask_kernel(int* out, unsigned mask) { out[threadIdx.x] = __shfl_xor_sync(mask, 1, 1); }

TEST_F(Warps, MaskWithoutTheCaller) {
  DeviceArray<int> out(32);
  launch({1, 32}, mask_kernel, out.data(), kFullWarp);
  launch({1, 16}, mask_kernel, out.data(), 0xFFFFu);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, mask_kernel, out.data(), 0xFFFFu);
  EXPECT_TRUE(reported("warp", "mask_kernel", kMaskLine));
}

constexpr int kAbsentLine = __LINE__ + 2;
__global__ void absent_kernel(int* out, int distance) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xFFFFu, static_cast<int>(threadIdx.x), distance);
}

TEST_F(Warps, ShuffleFromALaneThatIsNotThere) {
  DeviceArray<int> out(32);
  launch({1, 32}, absent_kernel, out.data(), 8);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, absent_kernel, out.data(), 16);
  EXPECT_TRUE(reported("warp", "absent_kernel", kAbsentLine));
}

constexpr int kWidthLine = __LINE__ + 1;
__global__ void width_kernel(int* out, int width) { out[threadIdx.x] = __shfl_sync(kFullWarp, 1, 0, width); }

TEST_F(Warps, WidthThatIsNoPowerOfTwo) {
  DeviceArray<int> out(32);
  launch({1, 32}, width_kernel, out.data(), 8);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, width_kernel, out.data(), 12);
  EXPECT_TRUE(reported("warp", "width_kernel", kWidthLine));
}

constexpr int kDivergentLine = __LINE__ + 2;
__global__ void divergent_kernel(int* out, unsigned lanes) {
  if (threadIdx.x < lanes) out[threadIdx.x] = __shfl_xor_sync(kFullWarp, 1, 1);
  if (threadIdx.x >= lanes) __syncthreads();
}

TEST_F(Warps, ShuffleInABranch) {
  DeviceArray<int> out(32);
  launch({1, 32}, divergent_kernel, out.data(), 32u);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, divergent_kernel, out.data(), 16u);
  EXPECT_TRUE(reported("barrier", "divergent_kernel", kDivergentLine));
}

constexpr int kExitedLine = __LINE__ + 3;
__global__ void exited_kernel(int* out, unsigned lanes) {
  if (threadIdx.x >= lanes) return;
  out[threadIdx.x] = __shfl_xor_sync(kFullWarp, 1, 1);
}

TEST_F(Warps, ShuffleAfterLanesHaveExited) {
  DeviceArray<int> out(32);
  launch({1, 32}, exited_kernel, out.data(), 32u);
  EXPECT_TRUE(nothing_reported());
  set_schedule(1);  // the last lanes first
  launch({1, 32}, exited_kernel, out.data(), 16u);
  EXPECT_TRUE(reported("warp", "exited_kernel", kExitedLine));
}

constexpr int kMixedLine = __LINE__ + 2;
__global__ void mixed_kernel(int* out, unsigned which) {
  out[threadIdx.x] = threadIdx.x % 2 < which ? __shfl_sync(kFullWarp, 1, 0) : __any_sync(kFullWarp, 1);
}

TEST_F(Warps, DifferentOperations) {
  DeviceArray<int> out(32);
  launch({1, 32}, mixed_kernel, out.data(), 0u);
  launch({1, 32}, mixed_kernel, out.data(), 2u);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, mixed_kernel, out.data(), 1u);
  EXPECT_TRUE(reported("warp", "mixed_kernel", kMixedLine));
}

}  // namespace
}  // namespace hostcuda::test
