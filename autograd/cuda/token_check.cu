// The host side of token checks: where the fault is kept, and how it becomes an error.
#include "autograd/cuda/token_check.cuh"

#include <cstring>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/runtime.hpp"

namespace heed::cuda {
namespace {

struct Watch {
  void* fault = nullptr;
  PinnedBuffer copy{sizeof(Fault)};
  uint32_t launches = 0;

  Watch() {
    check(cudaMalloc(&fault, sizeof(Fault)), "allocate memory");
    forget();
  }
  void forget() {
    std::memset(copy.data(), 0, sizeof(Fault));
    fill(fault, 0, sizeof(Fault));
  }
};

// Never destroyed, like the runtime.
Watch& watch() {
  static Watch* const instance = new Watch;
  return *instance;
}

}  // namespace

TokenCheck token_check(const TokenRange& range) {
  Watch& w = watch();
  if (++w.launches == 0) ++w.launches;
  return {.fault = static_cast<Fault*>(w.fault), .launch = w.launches, .range = range};
}

void queue_fault() { watch().copy.copy_from_device(0, watch().fault, sizeof(Fault)); }

void throw_if_fault() {
  Fault fault;
  std::memcpy(&fault, watch().copy.data(), sizeof(Fault));
  if (fault.launch == 0) return;
  watch().forget();
  const unsigned long long first = ~fault.first;
  throw_wrong_token(fault.range, static_cast<int32_t>(first & 0xFFFFFFFF), static_cast<int64_t>(first >> 32));
}

}  // namespace heed::cuda
