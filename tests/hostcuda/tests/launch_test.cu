// What a launch refuses, and what can be asked before one.
#include "tests/kernel_test.cuh"

namespace hostcuda::test {
namespace {

using Launches = KernelTest;

__global__ void set_kernel(int* out, int value) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) out[0] = value;
}

// The error of the call, which cudaGetLastError gives once more and then forgets.
cudaError_t error_of(const Shape& shape) {
  const DeviceArray<int> out(1);
  const cudaError_t error = launch(shape, set_kernel, out.data(), 1);
  EXPECT_EQ(cudaPeekAtLastError(), error);
  EXPECT_EQ(cudaGetLastError(), error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  return error;
}

TEST_F(Launches, RefuseWhatNoDeviceCanRun) {
  EXPECT_EQ(error_of({1, 1024}), cudaSuccess);
  EXPECT_EQ(error_of({1, {1, 1, 64}}), cudaSuccess);
  EXPECT_EQ(error_of({1, 1025}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({1, {32, 33}}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({1, {1, 1, 65}}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({1, 0}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({0, 32}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({{1, 0}, 32}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({{1, 65536}, 1}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({{1, 1, 65536}, 1}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(error_of({0x80000000u, 1}), cudaErrorInvalidConfiguration);
}

TEST_F(Launches, MoreThan48KiBOfSharedMemoryMustBeAskedFor) {
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(error_of({1, 32, 48 << 10}), cudaSuccess);
  EXPECT_EQ(error_of({1, 32, (48 << 10) + 1}), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(set_kernel, kAttribute, 228 << 10), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(set_kernel, kAttribute, 227 << 10), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue) << "of the call before";
  EXPECT_EQ(error_of({1, 32, 227 << 10}), cudaSuccess);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, set_kernel), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 227 << 10);
  EXPECT_EQ(cudaFuncSetAttribute(set_kernel, kAttribute, 1 << 10), cudaSuccess);
  EXPECT_EQ(error_of({1, 32, 2 << 10}), cudaErrorInvalidValue) << "a limit may be lower, too";
  EXPECT_EQ(cudaFuncSetAttribute(set_kernel, kAttribute, 48 << 10), cudaSuccess);
}

TEST_F(Launches, ClustersAreNotSupported) {
  DeviceArray<int> out(1);
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  attribute.id = cudaLaunchAttributeClusterDimension;
  EXPECT_EQ(cudaLaunchKernelEx(&config, set_kernel, out.data(), 1), cudaErrorNotSupported);
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  EXPECT_EQ(cudaLaunchKernelEx(&config, set_kernel, out.data(), 1), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

struct Parameters {
  int values[100];
  int* out;
};
__global__ void parameters_kernel(const Parameters parameters, const int i) {
  parameters.out[threadIdx.x] = parameters.values[i] + static_cast<int>(threadIdx.x);
}

TEST_F(Launches, ArgumentsAreCopiedAtTheCall) {
  DeviceArray<int> out(3);
  Parameters parameters{};
  parameters.out = out.data();
  parameters.values[42] = 5;
  set_streams(Streams::lazy);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(launch({1, 3, 0, stream}, parameters_kernel, parameters, 42), cudaSuccess);
  parameters.values[42] = 6;
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(out.values(), (std::vector<int>{5, 6, 7}));
  EXPECT_TRUE(nothing_reported());
}

TEST_F(Launches, Properties) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.major, 9);
  int value = 0, count = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  EXPECT_EQ(value, 227 << 10);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNoKernelImageForDevice), "cudaErrorNoKernelImageForDevice");
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, set_kernel, 256, 100 << 10), cudaSuccess);
  EXPECT_EQ(blocks, 2);
}

}  // namespace
}  // namespace hostcuda::test
