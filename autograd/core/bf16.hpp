// bfloat16 as a storage format: the upper half of an f32 (8 exponent bits, 7 fraction bits). No arithmetic is done in
// it: kernels widen to f32 on load and round to nearest even on store; NaN stays NaN. An f64 is rounded to f32 first.
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
    // Rounding could carry a NaN into Inf, so keep the fraction of a NaN and set its quiet bit instead.
    const uint32_t rounded = std::isnan(value) ? wide | 0x00400000u : wide + 0x7FFFu + ((wide >> 16) & 1);
    bits = static_cast<uint16_t>(rounded >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace heed
