// A kernel's view of a tensor: pointer, shape, dtype, device. Non-owning.
#pragma once

#include "autograd/core/check.hpp"
#include "autograd/core/device.hpp"
#include "autograd/core/dtype.hpp"
#include "autograd/core/shape.hpp"

namespace heed {

namespace detail {
template <class T>
void require_elements(DType dtype, Device device) {
  require<DTypeError>(dtype == dtype_of<T>(), "a {} tensor is read as {}", dtype, dtype_of<T>());
  require<DeviceError>(device == Device::cpu, "a tensor on {} is read on the cpu: copy it with to(Device::cpu)",
                       name(device));
}
}  // namespace detail

// An empty reference (no data) is an output that is not needed.
struct TensorRef {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  explicit operator bool() const { return data != nullptr; }
  // The elements of a CPU tensor, nullptr for an empty reference. Throws DTypeError if T is not the dtype, DeviceError
  // on another device (CUDA kernels use elements() of cuda/element.cuh).
  template <class T>
  T* as() const {
    if (data != nullptr) detail::require_elements<T>(dtype, device);
    return static_cast<T*>(data);
  }
};

struct ConstTensorRef {
  const void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  ConstTensorRef() = default;
  ConstTensorRef(const void* data_, const Shape& shape_, DType dtype_, Device device_)
      : data(data_), shape(shape_), dtype(dtype_), device(device_) {}
  ConstTensorRef(const TensorRef& ref) : ConstTensorRef(ref.data, ref.shape, ref.dtype, ref.device) {}

  explicit operator bool() const { return data != nullptr; }
  template <class T>
  const T* as() const {
    if (data != nullptr) detail::require_elements<T>(dtype, device);
    return static_cast<const T*>(data);
  }
};

// A gradient that a kernel writes: it overwrites `ref`, or accumulates into it if `add`. Empty: not needed.
struct GradientSink {
  TensorRef ref;
  bool add = false;

  explicit operator bool() const { return static_cast<bool>(ref); }
};

}  // namespace heed
