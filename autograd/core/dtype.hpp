// Element types. f32 trains, f64 checks gradients, i32 holds tokens.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace heed {

enum class DType { f32, f64, i32 };

constexpr int64_t size_bytes(DType dtype) { return dtype == DType::f64 ? 8 : 4; }
constexpr std::string_view name(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f64 ? "f64" : "i32";
}
constexpr bool is_floating(DType dtype) { return dtype != DType::i32; }

template <class T>
constexpr DType dtype_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t>);
  return std::is_same_v<T, float> ? DType::f32 : std::is_same_v<T, double> ? DType::f64 : DType::i32;
}

// Calls f with a value of the C++ type of a floating dtype: visit_floating(x.dtype(), [&](auto zero) { using T =
// decltype(zero); … });
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(double{}) : f(float{});
}

}  // namespace heed

template <>
struct fmt::formatter<heed::DType> : fmt::formatter<std::string_view> {
  auto format(heed::DType dtype, format_context& context) const {
    return formatter<std::string_view>::format(heed::name(dtype), context);
  }
};
