// cp.async that is not waited for, or not long enough.
#include <hostcuda_ptx.h>

#include <cmath>

#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using AsyncCopies = KernelTest;

enum class Wait { all, one_too_few, without_barrier, none };
constexpr int kIssueLine = __LINE__ + 4, kReadLine = __LINE__ + 11;
__global__ void copies_kernel(float* out, const float* in, Wait wait) {
  __shared__ __align__(16) float tile[2][128];
  for (unsigned i = 0; i < 2; ++i) {
    ptx::cp_async_16(&tile[i][threadIdx.x * 4], in + threadIdx.x * 4);
    ptx::cp_async_commit();
  }
  if (wait == Wait::all || wait == Wait::without_barrier) ptx::cp_async_wait<0>();
  if (wait == Wait::one_too_few) ptx::cp_async_wait<1>();
  if (wait != Wait::without_barrier) __syncthreads();
  // The end of the tile was copied by another thread.
  out[threadIdx.x] = tile[1][127 - threadIdx.x];
  if (wait == Wait::one_too_few) ptx::cp_async_wait<0>();
}

TEST_F(AsyncCopies, AreWaitedFor) {
  DeviceArray<float> in(std::vector<float>(128, 2)), out(32);
  launch({1, 32}, copies_kernel, out.data(), in.data(), Wait::all);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(out.values()[31], 2);

  launch({1, 32}, copies_kernel, out.data(), in.data(), Wait::one_too_few);
  EXPECT_TRUE(check_reported("async", "copies_kernel", kReadLine));
  EXPECT_TRUE(std::isnan(out.values()[0]));
  EXPECT_TRUE(nothing_reported());

  launch({1, 32}, copies_kernel, out.data(), in.data(), Wait::without_barrier);
  EXPECT_TRUE(check_reported("race", "copies_kernel", kReadLine));
  EXPECT_TRUE(std::isnan(out.values()[0])) << "another thread has not copied that yet";
  set_schedule(1);
  launch({1, 32}, copies_kernel, out.data(), in.data(), Wait::without_barrier);
  EXPECT_TRUE(check_reported("race", "copies_kernel", kReadLine));
  set_schedule(0);

  launch({1, 32}, copies_kernel, out.data(), in.data(), Wait::none);
  EXPECT_TRUE(reported("async", "copies_kernel", kIssueLine));
  EXPECT_TRUE(std::isnan(out.values()[31]));
}

// Behind the shuffle every copy has landed, but a shuffle is no order.
constexpr int kLandedLine = __LINE__ + 11;
__global__ void landed_kernel(float* out, const float* in, bool waits) {
  __shared__ __align__(16) float tile[128];
  ptx::cp_async_16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  if (waits) {
    __syncwarp();
  } else {
    __shfl_sync(kFullWarp, 0, 0);
  }
  out[threadIdx.x] = tile[127 - threadIdx.x * 4];
}

TEST_F(AsyncCopies, NeedABarrierBehindTheWait) {
  DeviceArray<float> in(std::vector<float>(128, 2)), out(32);
  launch({1, 32}, landed_kernel, out.data(), in.data(), true);
  EXPECT_TRUE(nothing_reported());
  if (!kSeesAllAccesses) return;
  launch({1, 32}, landed_kernel, out.data(), in.data(), false);
  EXPECT_TRUE(reported("race", "landed_kernel", kLandedLine));
}

constexpr int kOverwriteLine = __LINE__ + 5;
__global__ void overwrite_kernel(float* out, const float* in, bool early) {
  __shared__ __align__(16) float tile[128];
  ptx::cp_async_16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  ptx::cp_async_commit();
  if (early) tile[threadIdx.x * 4] = 1;
  ptx::cp_async_wait<0>();
  if (!early) tile[threadIdx.x * 4] = 1;
  out[threadIdx.x] = tile[threadIdx.x * 4];
}

TEST_F(AsyncCopies, TargetsAreLeftAlone) {
  DeviceArray<float> in(std::vector<float>(128, 2)), out(32);
  launch({1, 32}, overwrite_kernel, out.data(), in.data(), false);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(out.values()[3], 1);
  launch({1, 32}, overwrite_kernel, out.data(), in.data(), true);
  EXPECT_TRUE(check_reported("async", "overwrite_kernel", kOverwriteLine));
  EXPECT_EQ(out.values()[3], 2) << "the copy lands last";
}

// The tile holds old values, which are gone from the moment at which the copy is asked for.
constexpr int kOldLine = __LINE__ + 8;
__global__ void reload_kernel(float* out, const float* in, bool waits) {
  __shared__ __align__(16) float tile[128];
  for (unsigned i = 0; i < 4; ++i) tile[threadIdx.x * 4 + i] = 1;
  __syncthreads();
  ptx::cp_async_16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  ptx::cp_async_commit();
  if (waits) ptx::cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x * 4];
  ptx::cp_async_wait<0>();
}

TEST_F(AsyncCopies, TakeTheOldValuesAway) {
  DeviceArray<float> in(std::vector<float>(128, 2)), out(32);
  launch({1, 32}, reload_kernel, out.data(), in.data(), true);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(out.values()[3], 2);
  launch({1, 32}, reload_kernel, out.data(), in.data(), false);
  EXPECT_TRUE(check_reported("async", "reload_kernel", kOldLine));
  EXPECT_TRUE(std::isnan(out.values()[3]));
}

constexpr int kSourceLine = __LINE__ + 3;
__global__ void source_kernel(float* out, const float* in, int offset) {
  __shared__ __align__(16) float tile[128];
  ptx::cp_async_16(&tile[threadIdx.x * 4], in + threadIdx.x * 4 + offset);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x * 4];
}

TEST_F(AsyncCopies, SourcesLieInTheirMemory) {
  DeviceArray<float> in(std::vector<float>(128, 2)), out(32);
  launch({1, 32}, source_kernel, out.data(), in.data(), 0);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, source_kernel, out.data(), in.data(), 4);
  EXPECT_TRUE(reported("bounds", "source_kernel", kSourceLine));
  launch({1, 32}, source_kernel, out.data(), in.data(), 1);
  EXPECT_TRUE(reported("bounds", "source_kernel", kSourceLine)) << "misaligned";
  DeviceArray<float> fresh(128);
  launch({1, 32}, source_kernel, out.data(), fresh.data(), 0);
  EXPECT_TRUE(check_reported("uninit", "source_kernel", kSourceLine));
  EXPECT_TRUE(std::isnan(out.values()[0]));
}

enum class Fill { all_lanes, last_lane, nobody };
constexpr int kLoadLine = __LINE__ + 9;
__global__ void load_kernel(unsigned* out, unsigned shift, Fill fill) {
  __shared__ __align__(16) unsigned short tile[32 * 8 + 8];
  if (fill == Fill::all_lanes) {
    for (unsigned i = threadIdx.x; i < 264; i += 32) tile[i] = 1;
    __syncwarp();
  }
  for (unsigned i = 0; i < 264 && fill == Fill::last_lane && threadIdx.x == 31; ++i) tile[i] = 1;
  unsigned registers[4];
  ptx::ldmatrix_x4(registers, &tile[threadIdx.x * 8 + shift]);
  out[threadIdx.x] = registers[0];
}

TEST_F(AsyncCopies, LdmatrixReadsLikeALoadOfEachLane) {
  DeviceArray<unsigned> out(32);
  launch({1, 32}, load_kernel, out.data(), 0u, Fill::all_lanes);
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, load_kernel, out.data(), 4u, Fill::all_lanes);
  EXPECT_TRUE(reported("bounds", "load_kernel", kLoadLine)) << "not aligned";
  launch({1, 32}, load_kernel, out.data(), 0u, Fill::nobody);
  EXPECT_TRUE(check_reported("uninit", "load_kernel", kLoadLine));
  launch({1, 32}, load_kernel, out.data(), 0u, Fill::last_lane);
  EXPECT_TRUE(check_reported("race", "load_kernel", kLoadLine)) << "what one lane wrote is read by all";
}

}  // namespace
}  // namespace hostcuda::test
