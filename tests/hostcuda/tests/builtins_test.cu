// The language: who a thread is, warp operations, votes, atomics, bf16.
#include <cuda_bf16.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Builtins = KernelTest;

__global__ void position_kernel(uint3* out) {
  const unsigned in_block = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + in_block] = {threadIdx.y, blockIdx.y, blockIdx.z};
}

TEST_F(Builtins, EachThreadKnowsItsPlace) {
  const dim3 grid(2, 3, 2), block(5, 4, 3);
  DeviceArray<uint3> out(12 * 60);
  for (const uint64_t seed : {0, 1, 2, 77}) {
    set_schedule(seed);
    ASSERT_EQ(launch({grid, block}, position_kernel, out.data()), cudaSuccess);
    const std::vector<uint3> places = out.values();
    for (unsigned i = 0; i < places.size(); ++i) {
      EXPECT_EQ(places[i].x, i / 5 % 4);
      EXPECT_EQ(places[i].y, i / 60 / 2 % 3);
      EXPECT_EQ(places[i].z, i / 60 / 6);
    }
  }
}

__global__ void ticket_kernel(int* counter, int* tickets) { tickets[blockIdx.x] = atomicAdd(counter, 1); }

TEST_F(Builtins, TheScheduleOrdersTheBlocks) {
  const auto order = [](uint64_t seed) {
    DeviceArray<int> counter(std::vector<int>{0}), tickets(6);
    set_schedule(seed);
    EXPECT_EQ(launch({6, 1}, ticket_kernel, counter.data(), tickets.data()), cudaSuccess);
    return tickets.values();
  };
  EXPECT_EQ(order(0), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(order(1), (std::vector<int>{5, 4, 3, 2, 1, 0}));
  const std::vector<int> shuffled = order(4);
  EXPECT_NE(shuffled, order(0));
  EXPECT_NE(shuffled, order(1));
  EXPECT_EQ(std::set<int>(shuffled.begin(), shuffled.end()).size(), 6u) << "each block once";
}

struct WarpResult {
  int from_lane, up, down, exchanged, in_segment, up_in_segment, down_in_segment, out_of_segment, of_half;
  unsigned ballot;
  int any, all;
};

__global__ void warp_kernel(WarpResult* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  WarpResult r;
  r.from_lane = __shfl_sync(kFullWarp, lane * 10, 5);
  r.up = __shfl_up_sync(kFullWarp, lane, 3);
  r.down = __shfl_down_sync(kFullWarp, lane, 3);
  r.exchanged = __shfl_xor_sync(kFullWarp, lane, 9);
  r.in_segment = __shfl_sync(kFullWarp, lane, 1, 8);
  r.up_in_segment = __shfl_up_sync(kFullWarp, lane, 1, 8);
  r.down_in_segment = __shfl_down_sync(kFullWarp, lane, 2, 8);
  r.out_of_segment = __shfl_xor_sync(kFullWarp, lane, 8, 8);
  r.ballot = __ballot_sync(kFullWarp, lane % 3 == 0);
  r.any = __any_sync(kFullWarp, lane == 7);
  r.all = __all_sync(kFullWarp, lane < 31);
  r.of_half = lane < 16 ? __shfl_sync(0xFFFFu, lane, 2) : __shfl_sync(0xFFFF0000u, lane, 17);
  out[threadIdx.x] = r;
}

TEST_F(Builtins, WarpOperations) {
  DeviceArray<WarpResult> out(64);
  for (const uint64_t seed : {0, 1, 5}) {
    set_schedule(seed);
    ASSERT_EQ(launch({1, 64}, warp_kernel, out.data()), cudaSuccess);
    const auto results = out.values();
    for (int i = 0; i < 64; ++i) {
      const int lane = i % 32;
      const WarpResult& r = results[static_cast<size_t>(i)];
      EXPECT_EQ(r.from_lane, 50);
      EXPECT_EQ(r.up, lane < 3 ? lane : lane - 3);
      EXPECT_EQ(r.down, lane > 28 ? lane : lane + 3);
      EXPECT_EQ(r.exchanged, lane ^ 9);
      EXPECT_EQ(r.in_segment, lane / 8 * 8 + 1);
      EXPECT_EQ(r.up_in_segment, lane % 8 == 0 ? lane : lane - 1);
      EXPECT_EQ(r.down_in_segment, lane % 8 > 5 ? lane : lane + 2);
      EXPECT_EQ(r.out_of_segment, lane / 8 % 2 == 0 ? lane : lane - 8) << "only higher segments are out of reach";
      EXPECT_EQ(r.ballot, 0x49249249u);
      EXPECT_EQ(r.any, 1);
      EXPECT_EQ(r.all, 0);
      EXPECT_EQ(r.of_half, lane < 16 ? 2 : 17);
    }
  }
}

__global__ void votes_kernel(int* out) {
  const bool vote = threadIdx.x % 5 == 0;
  const int count = __syncthreads_count(vote), any = __syncthreads_or(vote), all = __syncthreads_and(threadIdx.x < 70);
  if (threadIdx.x == 69) {
    out[0] = count;
    out[1] = any;
    out[2] = all;
  }
}

TEST_F(Builtins, VotesOfABlock) {
  DeviceArray<int> out(3);
  ASSERT_EQ(launch({1, 70}, votes_kernel, out.data()), cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector<int>{14, 1, 1}));
}

__global__ void atomics_kernel(int* sum, unsigned* largest, int* smallest, unsigned* bits, unsigned long long* wide) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, static_cast<int>(i));
  atomicMax(largest, i);
  atomicMin(smallest, -static_cast<int>(i));
  atomicOr(bits, 1u << (i % 7));
  atomicAdd(wide, 1ull << 33);
}

TEST_F(Builtins, AtomicsOfAllThreads) {
  DeviceArray<int> sum(std::vector<int>{0}), smallest(std::vector<int>{5});
  DeviceArray<unsigned> largest(std::vector<unsigned>{3}), bits(std::vector<unsigned>{0x80});
  DeviceArray<unsigned long long> wide(std::vector<unsigned long long>{0});
  ASSERT_EQ(launch({7, 96}, atomics_kernel, sum.data(), largest.data(), smallest.data(), bits.data(), wide.data()),
            cudaSuccess);
  EXPECT_EQ(sum.values()[0], 672 * 671 / 2);
  EXPECT_EQ(largest.values()[0], 671u);
  EXPECT_EQ(smallest.values()[0], -671);
  EXPECT_EQ(bits.values()[0], 0xFFu);
  EXPECT_EQ(wide.values()[0], 672ull << 33);
}

__global__ void exchange_kernel(int* slots, int* old) {
  old[0] = atomicExch(slots, 5);
  old[1] = atomicCAS(slots, 4, 9);
  old[2] = atomicCAS(slots, 5, 9);
}

TEST_F(Builtins, ExchangeAndCompare) {
  DeviceArray<int> slots(std::vector<int>{1}), old(3);
  ASSERT_EQ(launch({}, exchange_kernel, slots.data(), old.data()), cudaSuccess);
  EXPECT_EQ(old.values(), (std::vector<int>{1, 5, 5}));
  EXPECT_EQ(slots.values()[0], 9);
}

__global__ void math_kernel(float* out, float x) {
  out[0] = __expf(x) + __logf(x) + __powf(x, 2) + __log2f(x) + __exp10f(x);
  out[1] = rsqrtf(x) + __fdividef(1, x) + __fmaf_rn(x, x, 1);
  out[2] = static_cast<float>(__popc(0xF0u) + __clz(1) + __ffs(8)) + fmaxf(x, NAN);
  __sincosf(x, &out[3], &out[4]);
}

TEST_F(Builtins, Intrinsics) {
  const float x = 1.5f;
  DeviceArray<float> out(5);
  ASSERT_EQ(launch({}, math_kernel, out.data(), x), cudaSuccess);
  const auto values = out.values();
  EXPECT_FLOAT_EQ(values[0], std::exp(x) + std::log(x) + x * x + std::log2(x) + std::pow(10.0f, x));
  EXPECT_FLOAT_EQ(values[1], 1 / std::sqrt(x) + 1 / x + x * x + 1);
  EXPECT_FLOAT_EQ(values[2], 4 + 31 + 4 + x);
  EXPECT_FLOAT_EQ(values[3], std::sin(x));
  EXPECT_FLOAT_EQ(values[4], std::cos(x));
}

// The nearest bf16 by a search over all of them; ties to the one with an even pattern.
unsigned short nearest_bf16(float value) {
  const auto widened = [](unsigned bits) { return double{std::bit_cast<float>(bits << 16)}; };
  const double magnitude = std::fabs(double{value});
  unsigned low = 0, high = 0x7F80;  // Inf
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (widened(middle) <= magnitude ? low : high) = middle;
  }
  const double above = high == 0x7F80 ? 2 * widened(low) - widened(low - 1) : widened(high);
  const double down = magnitude - widened(low), up = above - magnitude;
  if (up < down || (up == down && low % 2 == 1)) ++low;
  return static_cast<unsigned short>(low | (std::signbit(value) ? 0x8000u : 0u));
}

__global__ void round_kernel(unsigned short* out, const float* in, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = __bfloat16_as_ushort(__float2bfloat16(in[i]));
}

TEST_F(Builtins, Bf16IsRoundedToNearestEven) {
  std::mt19937 random(3);
  std::vector<float> in = {0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, -2.5f, 3.4e38f, 1e-45f, 9.2e-41f};
  while (in.size() < 3000) {
    const auto bits = static_cast<uint32_t>(random());
    if (std::isfinite(std::bit_cast<float>(bits))) in.push_back(std::bit_cast<float>(bits));
  }
  DeviceArray<float> device_in(in);
  DeviceArray<unsigned short> out(in.size());
  ASSERT_EQ(launch({24, 128}, round_kernel, out.data(), device_in.data(), static_cast<unsigned>(in.size())),
            cudaSuccess);
  const auto rounded = out.values();
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(rounded[i], nearest_bf16(in[i])) << in[i];
}

TEST_F(Builtins, Bf16KeepsWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(__nv_bfloat16(kInf)), kInf);
  EXPECT_EQ(static_cast<float>(__nv_bfloat16(-kInf)), -kInf);
  for (const uint32_t bits : {0x7F800001u, 0xFFFFFFFFu, 0x7FFFFFFFu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(__nv_bfloat16(std::bit_cast<float>(bits)))));
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(__nv_bfloat16(kInf) - __nv_bfloat16(kInf))));
}

__global__ void vectors_kernel(float4* out, const float4* in) {
  float4 value = in[threadIdx.x];
  value.w += 1;
  out[threadIdx.x] = value;
}

TEST_F(Builtins, VectorTypesHaveCudasSizes) {
  static_assert(sizeof(float4) == 16 && alignof(float4) == 16 && alignof(float2) == 8 && sizeof(float3) == 12);
  static_assert(alignof(double4) == 16 && sizeof(ushort4) == 8 && alignof(uint3) == 4 && sizeof(dim3) == 12);
  DeviceArray<float4> in(std::vector<float4>(40, {1, 2, 3, 4})), out(40);
  ASSERT_EQ(launch({1, 40}, vectors_kernel, out.data(), in.data()), cudaSuccess);
  EXPECT_EQ(out.values()[39].w, 5);
  EXPECT_TRUE(nothing_reported());
}

// The check build is only worth something if it sees the accesses: 40 threads, a load and a store each at least.
TEST_F(Builtins, TheCheckBuildSeesAccesses) {
  DeviceArray<float4> in(std::vector<float4>(40, {1, 2, 3, 4})), out(40);
  take_stats();
  ASSERT_EQ(launch({1, 40}, vectors_kernel, out.data(), in.data()), cudaSuccess);
  const Stats stats = take_stats();
  EXPECT_EQ(stats.launches, 1u);
  EXPECT_EQ(stats.blocks, 1u);
  EXPECT_EQ(stats.switches, 40u);
  if (kSeesAllAccesses) {
    EXPECT_GE(stats.accesses, 80u);
  } else {
    EXPECT_EQ(stats.accesses, 0u);
  }
}

}  // namespace
}  // namespace hostcuda::test
