// bfloat16 as storage: the upper half of an f32 (8 bits of exponent, 7 of fraction). Nothing is computed in it: kernels
// widen what they load to f32 and round what they store to nearest, ties to even; NaN stays NaN. An f64 is rounded to
// f32 first.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace heed {

struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  explicit Bf16(Number number) {
    const auto value = static_cast<float>(number);
    const auto wide = std::bit_cast<uint32_t>(value);
    // Rounding could carry a NaN into Inf, so its fraction is kept and made quiet instead.
    const uint32_t rounded = std::isnan(value) ? wide | 0x00400000u : wide + 0x7FFFu + ((wide >> 16) & 1);
    bits = static_cast<uint16_t>(rounded >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace heed
