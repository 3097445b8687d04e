// What the tests of the engine share: device memory, launches, and what must be reported.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <hostcuda.h>

#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hostcuda::test {

inline const bool kSeesAllAccesses = sees_all_accesses();
inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;

// Device memory of exactly `size` elements, never written unless values are given.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> copy(size_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(copy.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return copy;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

struct Shape {
  dim3 grid = 1, block = 1;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Parameters>
cudaError_t launch(const Shape& shape, void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class T>
T& shared_as() {
  return *static_cast<T*>(dynamic_shared());
}

// Was a fault of this kind found, in this kernel and at this line of the file of the test? Line 0: the report names
// none. Takes the reports.
inline ::testing::AssertionResult reported(std::string_view kind, const std::string& kernel, int line,
                                           std::source_location test = std::source_location::current()) {
  cudaDeviceSynchronize();
  const std::string path = test.file_name();
  const std::string place = path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
  auto answer = ::testing::AssertionFailure() << "wanted " << kind << " in " << kernel << " at " << place << ", found:";
  for (const Report& report : take_reports()) {
    const bool has_line = line == 0 || report.text.find(place) != std::string::npos;
    if (report.kind == kind && has_line && report.text.find("::" + kernel) != std::string::npos) {
      return ::testing::AssertionSuccess();
    }
    answer << "\n  " << report.kind << ": " << report.text;
  }
  return answer;
}

inline ::testing::AssertionResult nothing_reported() {
  cudaDeviceSynchronize();
  const std::vector<Report> reports = take_reports();
  if (reports.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << reports[0].kind << ": " << reports[0].text;
}

// Only the check build sees it.
inline ::testing::AssertionResult check_reported(std::string_view kind, const std::string& kernel, int line,
                                                 std::source_location test = std::source_location::current()) {
  return kSeesAllAccesses ? reported(kind, kernel, line, test) : nothing_reported();
}

// Each test begins with the default modes and ends without a report that it has not taken.
class KernelTest : public ::testing::Test {
 protected:
  KernelTest() {
    reset();
    quiet = true;
  }
  ~KernelTest() override { reset(); }

 private:
  static void reset() {
    set_schedule(0);
    set_streams(Streams::eager);
    quiet = forbid_default_stream = without_gelu_algorithms = epilogues_are_invalid = false;
  }
};

}  // namespace hostcuda::test
