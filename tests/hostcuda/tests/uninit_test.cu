// Memory that was read before anything was written there. The plain build has NaN there, and no eyes.
#include <cmath>

#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Uninit = KernelTest;

constexpr int kAddLine = __LINE__ + 1;
__global__ void add_kernel(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x] + 1; }

TEST_F(Uninit, GlobalMemory) {
  DeviceArray<float> in(32), out(32);
  ASSERT_EQ(cudaMemset(in.data(), 0, in.bytes() - 4), cudaSuccess);
  launch({1, 31}, add_kernel, out.data(), in.data());
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, add_kernel, out.data(), in.data());
  EXPECT_TRUE(check_reported("uninit", "add_kernel", kAddLine));
  const auto values = out.values();
  EXPECT_EQ(values[30], 1);
  EXPECT_TRUE(std::isnan(values[31]));
}

constexpr int kSharedLine = __LINE__ + 5;
__global__ void shared_kernel(float* out, unsigned left_out) {
  __shared__ float values[32];
  if (threadIdx.x != left_out) values[threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = values[threadIdx.x];
}

TEST_F(Uninit, SharedMemoryBeginsAnewInEachBlock) {
  DeviceArray<float> out(64);
  launch({2, 32}, shared_kernel, out.data(), 99u);
  EXPECT_TRUE(nothing_reported());
  launch({2, 32}, shared_kernel, out.data(), 5u);  // what the launch before left there does not count
  EXPECT_TRUE(check_reported("uninit", "shared_kernel", kSharedLine));
  const auto values = out.values();
  EXPECT_EQ(values[4], 1);
  EXPECT_TRUE(std::isnan(values[5]) && std::isnan(values[37]));
}

constexpr int kHalfLine = __LINE__ + 3;
__global__ void half_kernel(unsigned* out, unsigned short* halves, unsigned written) {
  for (unsigned i = 0; i < written; ++i) halves[i] = static_cast<unsigned short>(i);
  out[0] = *reinterpret_cast<unsigned*>(halves);
}

TEST_F(Uninit, HalfAWord) {
  DeviceArray<unsigned short> halves(2);
  DeviceArray<unsigned> out(1);
  launch({}, half_kernel, out.data(), halves.data(), 2u);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(out.values()[0], 0x10000u);
  DeviceArray<unsigned short> others(2);
  launch({}, half_kernel, out.data(), others.data(), 1u);
  EXPECT_TRUE(check_reported("uninit", "half_kernel", kHalfLine));
}

__global__ void bytes_kernel(unsigned char* bytes) { bytes[threadIdx.x] = 1; }

TEST_F(Uninit, CopiesToTheHost) {
  DeviceArray<unsigned char> bytes(11);
  std::vector<unsigned char> host(11);
  launch({1, 10}, bytes_kernel, bytes.data());
  EXPECT_EQ(cudaMemcpy(host.data(), bytes.data(), 10, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(cudaMemcpy(host.data(), bytes.data(), 11, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host[9], 1);
  EXPECT_EQ(host[10], 0xFF) << "what was never written";
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), kSeesAllAccesses ? 1u : 0u);
  for (const Report& report : reports) EXPECT_NE(report.text.find("byte 10 of the 11-byte"), std::string::npos);
}

TEST_F(Uninit, CopiesWithinTheDeviceKeepIt) {
  DeviceArray<unsigned char> bytes(11), copy(11);
  launch({1, 7}, bytes_kernel, bytes.data());
  EXPECT_EQ(cudaMemcpy(copy.data(), bytes.data(), 11, cudaMemcpyDeviceToDevice), cudaSuccess);
  std::vector<unsigned char> host(11);
  EXPECT_EQ(cudaMemcpy(host.data(), copy.data(), 7, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(cudaMemcpy(host.data(), copy.data(), 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(take_reports().size(), kSeesAllAccesses ? 1u : 0u);
}

constexpr int kCountLine = __LINE__ + 1;
__global__ void count_kernel(int* counter) { atomicAdd(counter, 1); }

TEST_F(Uninit, Atomics) {
  DeviceArray<int> zeroed(std::vector<int>{0}), fresh(1);
  launch({1, 32}, count_kernel, zeroed.data());
  EXPECT_TRUE(nothing_reported());
  launch({1, 32}, count_kernel, fresh.data());
  EXPECT_TRUE(check_reported("uninit", "count_kernel", kCountLine));
}

}  // namespace
}  // namespace hostcuda::test
