// CUDA emulation: bfloat16, each operation rounded once, to nearest even; NaN becomes 0x7FFF as on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct alignas(2) __nv_bfloat16 {
  unsigned short bits;

  __nv_bfloat16() = default;  // leaves it as it is: __shared__ arrays have no constructor
  constexpr __nv_bfloat16(float value) : bits(round(value)) {}
  constexpr __nv_bfloat16(double value) : bits(round(static_cast<float>(value))) {}
  constexpr __nv_bfloat16(int value) : bits(round(static_cast<float>(value))) {}
  constexpr __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

 private:
  static constexpr unsigned short round(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    if ((wide & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
    return static_cast<unsigned short>((wide + 0x7FFFu + ((wide >> 16) & 1u)) >> 16);
  }
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  constexpr __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

template <>
inline constexpr bool hostcuda::kIsShuffled<__nv_bfloat16> = true;
template <>
inline constexpr bool hostcuda::kIsShuffled<__nv_bfloat162> = true;

constexpr __nv_bfloat16 __float2bfloat16(float value) { return value; }
constexpr __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
constexpr float __bfloat162float(__nv_bfloat16 value) { return value; }
constexpr __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
constexpr unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }

constexpr __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {low, high}; }
constexpr __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return {pair.x, pair.y}; }
constexpr float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
constexpr float __low2float(__nv_bfloat162 pair) { return pair.x; }
constexpr float __high2float(__nv_bfloat162 pair) { return pair.y; }
constexpr __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
constexpr __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
constexpr __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
constexpr __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 both) { return {both, both}; }

// Through f32 the result is the one that is rounded once, since 24 bits are at least 2 * 8 + 2. That holds for these
// operations and not for a fused multiply-add, which is left out.
constexpr __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
  return static_cast<float>(a) + static_cast<float>(b);
}
constexpr __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) {
  return static_cast<float>(a) - static_cast<float>(b);
}
constexpr __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
  return static_cast<float>(a) * static_cast<float>(b);
}
constexpr __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) {
  return static_cast<float>(a) / static_cast<float>(b);
}
constexpr __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -static_cast<float>(a); }
constexpr __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
constexpr __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }

constexpr __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
constexpr __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
constexpr __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
constexpr __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __hdiv(a, b); }
