// A scalar argument of a kernel, by value or by address. By address, a captured CUDA graph reads another value on each
// replay. The address is in the memory of the kernel's device, and must stay valid until the kernel has run, for a
// recorded operation until its backward has run.
#pragma once

#ifdef __CUDACC__
#define HEED_HOST_DEVICE __host__ __device__
#else
#define HEED_HOST_DEVICE
#endif

namespace heed {

template <class T>
struct DeviceScalar {
  DeviceScalar() = default;
  HEED_HOST_DEVICE constexpr DeviceScalar(T by_value) : value(by_value) {}
  static DeviceScalar at(const T* address) {
    DeviceScalar scalar;
    scalar.address = address;
    return scalar;
  }

  // Call this where the kernel runs.
  HEED_HOST_DEVICE T get() const { return address == nullptr ? value : *address; }

  T value = {};
  const T* address = nullptr;  // if set, replaces value
};

}  // namespace heed
