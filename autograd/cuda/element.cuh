// Element access in kernels: f32 or bf16 in memory, f32 in registers; 16-byte vector accesses where size and alignment
// allow.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "autograd/core/tensor_ref.hpp"

namespace heed::cuda {

template <class T>
constexpr DType element_dtype() {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return DType::bf16;
  } else {
    return dtype_of<T>();
  }
}

// The elements of a CUDA tensor, nullptr for an empty reference. Throws DTypeError, DeviceError.
template <class T, class Ref>
auto* elements(const Ref& ref) {
  using Element = std::conditional_t<std::is_same_v<Ref, TensorRef>, T, const T>;
  if (ref.data != nullptr) {
    require<DTypeError>(ref.dtype == element_dtype<T>(), "a {} tensor is read as {}", ref.dtype, element_dtype<T>());
    require<DeviceError>(ref.device == Device::cuda, "a tensor on {} is read on cuda: copy it with to(Device::cuda)",
                         name(ref.device));
  }
  return static_cast<Element*>(ref.data);
}

// Calls f with a zero of the element type:
//   visit_elements("gelu", x.dtype, [&](auto zero) { using T = decltype(zero); … });
// Throws DTypeError for other dtypes than f32 and bf16; f64 is for gradient checks on the CPU.
template <class F>
void visit_elements(const char* operation, DType dtype, F&& f) {
  require<DTypeError>(dtype == DType::f32 || dtype == DType::bf16, "{}: {} tensors are not for cuda, f32 and bf16 are",
                      operation, dtype);
  dtype == DType::bf16 ? f(__nv_bfloat16{}) : f(float{});
}

template <class T>
__device__ __forceinline__ float to_float(T value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
}
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(value);
  } else {
    return value;
  }
}

// N adjacent elements as floats. One access moves N * sizeof(T) bytes and needs that alignment; above 16 bytes there
// are two accesses.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T element[N];
};
template <int N>
struct Floats {
  float value[N];
};
// Separate from to_floats(), so that one vector can be in flight while another one is processed.
template <int N, class T>
__device__ __forceinline__ Vector<T, N> fetch(const T* address) {
  return *reinterpret_cast<const Vector<T, N>*>(address);
}
template <class T, int N>
__device__ __forceinline__ Floats<N> to_floats(const Vector<T, N>& vector) {
  Floats<N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.value[i] = to_float(vector.element[i]);
  return result;
}
template <int N, class T>
__device__ __forceinline__ Floats<N> load(const T* address) {
  return to_floats(fetch<N>(address));
}
template <int N, class T>
__device__ __forceinline__ void store(T* address, const Floats<N>& floats) {
  Vector<T, N> vector;
#pragma unroll
  for (int i = 0; i < N; ++i) vector.element[i] = from_float<T>(floats.value[i]);
  *reinterpret_cast<Vector<T, N>*>(address) = vector;
}

// The number of elements of T in 16 bytes.
template <class T>
constexpr int kPerVector = 16 / static_cast<int>(sizeof(T));

// Whether rows of `columns` elements can be moved N at a time from each address: by size and alignment.
template <int N, class... T>
bool can_move(int64_t columns, const T*... addresses) {
  return columns % N == 0 && ((reinterpret_cast<uintptr_t>(addresses) % (sizeof(T) * N) == 0) && ...);
}

}  // namespace heed::cuda
