// What the environment sets when a process starts. A death test of the style "threadsafe" is a new process.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <hostcuda.h>

#include <csignal>
#include <cstdlib>

namespace hostcuda::test {
namespace {

class EnvironmentDeathTest : public ::testing::Test {
 protected:
  EnvironmentDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~EnvironmentDeathTest() override {
    GTEST_FLAG_SET(death_test_style, "fast");
    for (const char* name : set_) unsetenv(name);
  }
  void set(const char* name, const char* value) {
    setenv(name, value, 1);
    set_.push_back(name);
  }

 private:
  std::vector<const char*> set_;
};

constexpr int kExpected = 0, kOther = 1;
[[noreturn]] void leave(bool as_expected) { std::exit(as_expected ? kExpected : kOther); }

[[noreturn]] void use_no_device() {
  int count = 7, version = 0;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaDeviceProp properties;
  bool refused = cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0;
  refused = refused && cudaGetLastError() == cudaErrorNoDevice && cudaSetDevice(0) == cudaErrorNoDevice;
  refused = refused && cudaMalloc(&memory, 4) == cudaErrorNoDevice;
  refused = refused && cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaErrorNoDevice;
  refused = refused && cudaGetDeviceProperties(&properties, 0) == cudaErrorNoDevice;
  leave(refused && cudaRuntimeGetVersion(&version) == cudaSuccess && version == CUDART_VERSION);
}

TEST_F(EnvironmentDeathTest, TakesTheDeviceAway) {
  EXPECT_EXIT(use_no_device(), ::testing::ExitedWithCode(kOther), "");
  set("HOSTCUDA_DEVICES", "0");
  EXPECT_EXIT(use_no_device(), ::testing::ExitedWithCode(kExpected), "");
}

[[noreturn]] void use_three_mebibytes() {
  size_t free = 0, total = 0;
  void *first = nullptr, *second = nullptr;
  bool limited = cudaMemGetInfo(&free, &total) == cudaSuccess && total == 3u << 20;
  limited = limited && cudaMalloc(&first, 2 << 20) == cudaSuccess;
  limited = limited && cudaMalloc(&second, 2 << 20) == cudaErrorMemoryAllocation && second == nullptr;
  limited = limited && cudaGetLastError() == cudaErrorMemoryAllocation;
  limited = limited && cudaMemGetInfo(&free, &total) == cudaSuccess && free == 1u << 20;
  limited = limited && cudaFree(first) == cudaSuccess && cudaMalloc(&second, 3 << 20) == cudaSuccess;
  leave(limited && cudaFree(second) == cudaSuccess);
}

TEST_F(EnvironmentDeathTest, LimitsMemory) {
  EXPECT_EXIT(use_three_mebibytes(), ::testing::ExitedWithCode(kOther), "");
  set("HOSTCUDA_MEMORY_MIB", "3");
  EXPECT_EXIT(use_three_mebibytes(), ::testing::ExitedWithCode(kExpected), "");
}

[[noreturn]] void use_an_older_device() {
  cudaDeviceProp properties;
  const bool known = cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
  leave(known && properties.major == 8 && properties.sharedMemPerBlockOptin == 163u << 10);
}

TEST_F(EnvironmentDeathTest, ChoosesTheCapability) {
  EXPECT_EXIT(use_an_older_device(), ::testing::ExitedWithCode(kOther), "");
  set("HOSTCUDA_CAPABILITY", "80");
  EXPECT_EXIT(use_an_older_device(), ::testing::ExitedWithCode(kExpected), "");
}

[[noreturn]] void leave_work_behind() {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  const bool ready = cudaMalloc(&memory, 4) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess;
  leave(ready && cudaMemsetAsync(memory, 0, 4, stream) == cudaSuccess);
}

[[noreturn]] void leave_a_report_behind() {
  void* memory = nullptr;
  forbid_default_stream = true;
  const bool ready = cudaMalloc(&memory, 4) == cudaSuccess;
  leave(ready && cudaMemsetAsync(memory, 0, 4, nullptr) == cudaSuccess);
}

TEST_F(EnvironmentDeathTest, NothingThatWasFoundIsLostAtTheEnd) {
  set("HOSTCUDA_STREAMS", "eager");
  EXPECT_EXIT(leave_a_report_behind(), ::testing::ExitedWithCode(99), "stream: work on the default stream");
  EXPECT_EXIT(leave_work_behind(), ::testing::ExitedWithCode(kExpected), "");
  set("HOSTCUDA_STREAMS", "lazy");
  EXPECT_EXIT(leave_work_behind(), ::testing::ExitedWithCode(99),
              "nobody waited for 1 pieces of work.*cudaMemsetAsync");
}

TEST_F(EnvironmentDeathTest, RefusesWhatItDoesNotKnow) {
  set("HOSTCUDA_SCHEDULE", "-1");
  EXPECT_EXIT(leave(true), ::testing::KilledBySignal(SIGABRT), "HOSTCUDA_SCHEDULE=-1 is no number");
  set("HOSTCUDA_SCHEDULE", "2");
  EXPECT_EXIT(leave(true), ::testing::ExitedWithCode(kExpected), "");
  set("HOSTCUDA_STREAMS", "slow");
  EXPECT_EXIT(leave(true), ::testing::KilledBySignal(SIGABRT), "HOSTCUDA_STREAMS=slow is none of eager, lazy, random");
}

}  // namespace
}  // namespace hostcuda::test
