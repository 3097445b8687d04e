#include "src/report.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "src/stream.hpp"

namespace hostcuda {
namespace {

constexpr int kExitCode = 99;
constexpr size_t kPrinted = 20;

std::mutex lock;
cudaError_t last_error = cudaSuccess, left_by_fault = cudaSuccess;

cudaError_t error_after(std::string_view kind) {
  if (kind == "bounds" || kind == "host") return cudaErrorIllegalAddress;
  if (kind == "barrier" || kind == "warp" || kind == "trap") return cudaErrorLaunchFailure;
  return cudaSuccess;
}

// Nothing that was found may be lost, so the library looks once more when the process ends.
class Reports {
 public:
  std::vector<Report> list;

  ~Reports() {
    for (const std::string& work : unfinished_work())
      report("stream", "the process ends and nobody waited for " + work);
    if (list.empty()) return;
    std::fprintf(stderr, "hostcuda: %zu reports that nobody took\n", list.size());
    std::fflush(nullptr);
    _exit(kExitCode);
  }
};
Reports reports;

}  // namespace

bool quiet = false;

std::string format(const char* text, ...) {
  char buffer[2048];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof(buffer), text, arguments);
  va_end(arguments);
  return buffer;
}

void report(const char* kind, const std::string& text) {
  const std::lock_guard guard(lock);
  reports.list.push_back({kind, text});
  if (!quiet && reports.list.size() <= kPrinted) std::fprintf(stderr, "hostcuda: %s: %s\n", kind, text.c_str());
  if (const cudaError_t error = error_after(kind); error != cudaSuccess) left_by_fault = error;
}

std::vector<Report> take_reports() {
  finish_all_streams();
  const std::lock_guard guard(lock);
  left_by_fault = last_error = cudaSuccess;
  return std::exchange(reports.list, {});
}

cudaError_t fault_error() { return left_by_fault; }
cudaError_t fail(cudaError_t error) { return last_error = error; }
cudaError_t result() { return left_by_fault == cudaSuccess ? cudaSuccess : fail(left_by_fault); }

void give_up(const std::string& text) {
  std::fprintf(stderr, "hostcuda: %s\n", text.c_str());
  std::abort();
}

uint64_t environment_number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0') give_up(format("%s=%s is no number", name, text));
  return value;
}

}  // namespace hostcuda

using hostcuda::fault_error;

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  hostcuda::fail(cudaSuccess);
  return error;
}
cudaError_t cudaPeekAtLastError() { return fault_error() == cudaSuccess ? hostcuda::last_error : fault_error(); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit:
      return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
