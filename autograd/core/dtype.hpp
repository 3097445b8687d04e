// Element types. f32 is for training, bf16 stores activations and matmul weights in half the bytes, f64 is for gradient
// checks, i32 holds tokens.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace heed {

// bfloat16 as a storage format: the upper half of an f32 (8 exponent bits, 7 fraction bits). No arithmetic is done in
// it: kernels widen to f32 on load and round to nearest even on store; NaN stays NaN. An f64 is rounded to f32 first.
struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  explicit Bf16(Number number) {
    const auto value = static_cast<float>(number);
    const auto wide = std::bit_cast<uint32_t>(value);
    // Rounding could carry a NaN into Inf, so keep the fraction of a NaN and set its quiet bit instead.
    const uint32_t rounded = std::isnan(value) ? wide | 0x00400000u : wide + 0x7FFFu + ((wide >> 16) & 1);
    bits = static_cast<uint16_t>(rounded >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

enum class DType { f32, f64, i32, bf16 };

constexpr int64_t size_bytes(DType dtype) { return dtype == DType::f64 ? 8 : dtype == DType::bf16 ? 2 : 4; }
constexpr std::string_view name(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "i32", "bf16"};
  return kNames[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype != DType::i32; }
// The accumulation dtype of kernels: f32 for bf16, else the dtype itself. Also the dtype of tensors that keep full
// precision next to a bf16 tensor: statistics, losses, parameter vectors and gradients of parameters.
constexpr DType accumulation_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }
constexpr bool is_accumulation_dtype(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
template <class T>
using AccumT = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, Bf16>) {
    return DType::bf16;
  } else {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t>);
    return std::is_same_v<T, float> ? DType::f32 : std::is_same_v<T, double> ? DType::f64 : DType::i32;
  }
}

// Calls f with a zero of the C++ type of a floating-point dtype:
//   visit_floating(x.dtype(), [&](auto zero) { using T = decltype(zero); … });
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(double{}) : dtype == DType::bf16 ? f(Bf16{}) : f(float{});
}
// The same for f32 and f64 only.
template <class F>
decltype(auto) visit_accumulation(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace heed

template <>
struct fmt::formatter<heed::DType> : fmt::formatter<std::string_view> {
  auto format(heed::DType dtype, format_context& context) const {
    return formatter<std::string_view>::format(heed::name(dtype), context);
  }
};
