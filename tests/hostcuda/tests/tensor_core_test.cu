// Which lane holds which element, element by element against the formulas of the PTX ISA, and cp.async.
#include <cuda_bf16.h>
#include <hostcuda_ptx.h>

#include <random>

#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using TensorCore = KernelTest;

__global__ void load_kernel(uint4* plain, uint4* transposed, const unsigned short* in) {
  __shared__ __align__(16) unsigned short matrices[4][8][8];
  for (unsigned i = threadIdx.x; i < 256; i += 32) (&matrices[0][0][0])[i] = in[i];
  __syncwarp();
  unsigned registers[4];
  ptx::ldmatrix_x4(registers, matrices[threadIdx.x / 8][threadIdx.x % 8]);
  plain[threadIdx.x] = {registers[0], registers[1], registers[2], registers[3]};
  ptx::ldmatrix_x4_trans(registers, matrices[threadIdx.x / 8][threadIdx.x % 8]);
  transposed[threadIdx.x] = {registers[0], registers[1], registers[2], registers[3]};
}

TEST_F(TensorCore, LdmatrixGivesEachLaneTwoElementsOfEachMatrix) {
  std::vector<unsigned short> in(256);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned short>(i);
  DeviceArray<unsigned short> device_in(in);
  DeviceArray<uint4> plain(32), transposed(32);
  ASSERT_EQ(launch({1, 32}, load_kernel, plain.data(), transposed.data(), device_in.data()), cudaSuccess);
  const auto rows = plain.values(), columns = transposed.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned in_rows[] = {rows[lane].x, rows[lane].y, rows[lane].z, rows[lane].w};
    const unsigned in_columns[] = {columns[lane].x, columns[lane].y, columns[lane].z, columns[lane].w};
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned row = lane / 4, pair = lane % 4 * 2;
      const auto element = [&](unsigned r, unsigned c) { return j * 64 + r * 8 + c; };
      EXPECT_EQ(in_rows[j], element(row, pair) | element(row, pair + 1) << 16);
      EXPECT_EQ(in_columns[j], element(pair, row) | element(pair + 1, row) << 16);
    }
  }
}

// Each lane fills its registers by the formulas of the PTX ISA, and writes its results where they say.
__global__ void multiply_kernel(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b) {
  const unsigned group = threadIdx.x >> 2, in_group = threadIdx.x % 4;
  const auto pack = [](__nv_bfloat16 low, __nv_bfloat16 high) {
    return static_cast<unsigned>(__bfloat16_as_ushort(low)) | static_cast<unsigned>(__bfloat16_as_ushort(high)) << 16;
  };
  __nv_bfloat16 elements_a[8], elements_b[4];
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const unsigned column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    elements_a[i] = a[row * 16 + column];
  }
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    elements_b[i] = b[row * 8 + group];
  }
  unsigned fragment_a[4], fragment_b[2];
  for (unsigned i = 0; i < 4; ++i) fragment_a[i] = pack(elements_a[2 * i], elements_a[2 * i + 1]);
  for (unsigned i = 0; i < 2; ++i) fragment_b[i] = pack(elements_b[2 * i], elements_b[2 * i + 1]);
  float d[4] = {1, 1, 1, 1};
  ptx::mma_bf16_16816(d, fragment_a, fragment_b);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
    c[row * 8 + column] = d[i];
  }
}

TEST_F(TensorCore, MmaMultipliesFragments) {
  std::mt19937 random(1);
  std::vector<__nv_bfloat16> a(256), b(128);
  for (auto& element : a) element = static_cast<float>(random() % 17) - 8;
  for (auto& element : b) element = static_cast<float>(random() % 17) - 8;
  DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  DeviceArray<float> c(128);
  ASSERT_EQ(launch({1, 32}, multiply_kernel, c.data(), device_a.data(), device_b.data()), cudaSuccess);
  const auto product = c.values();
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float sum = 1;  // small integers: exact in any order
      for (size_t k = 0; k < 16; ++k) {
        sum += static_cast<float>(a[row * 16 + k]) * static_cast<float>(b[k * 8 + column]);
      }
      EXPECT_EQ(product[row * 8 + column], sum) << row << " " << column;
    }
  }
}

__global__ void copy_kernel(float* out, const float* in, unsigned valid) {
  __shared__ __align__(16) float tile[2][128];
  ptx::cp_async_16(&tile[0][threadIdx.x * 4], in + threadIdx.x * 4);
  ptx::cp_async_commit();
  ptx::cp_async_16(&tile[1][threadIdx.x * 4], in + threadIdx.x * 4, threadIdx.x < valid);
  ptx::cp_async_commit();
  ptx::cp_async_wait<1>();
  __syncthreads();
  const float first = tile[0][127 - threadIdx.x];
  ptx::cp_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = first + tile[1][threadIdx.x * 4];
}

TEST_F(TensorCore, CopiesLandInGroups) {
  std::vector<float> in(128);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  DeviceArray<float> device_in(in), out(32);
  ASSERT_EQ(launch({1, 32}, copy_kernel, out.data(), device_in.data(), 20u), cudaSuccess);
  const auto sums = out.values();
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(sums[i], static_cast<float>(127 - i + (i < 20 ? 4 * i : 0))) << "zeros where the source is not valid";
  }
  EXPECT_TRUE(nothing_reported());
}

}  // namespace
}  // namespace hostcuda::test
