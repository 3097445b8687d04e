// Every tolerance of the tests, with its reason. A test takes its bound from here or it compares exactly.
#pragma once

#include <limits>

namespace heed::test {

// f64 against f64, other order of summation: some hundred roundings of the largest term.
inline constexpr double kF64 = 1e-11;
// Analytic gradient against the five-point stencil in f64.
inline constexpr double kGradcheck = 1e-6;
// f32 operations: the error may be at most twice that of the plain reference in f32, plus this many roundings of the
// largest value of the tensor.
inline constexpr double kF32Slack = 2.0;
inline constexpr double kF32Roundings = 16.0;
inline constexpr double kF32Epsilon = std::numeric_limits<float>::epsilon();
// f32 values derived by hand, relative.
inline constexpr double kF32 = 1e-5;
// Values quoted with six digits.
inline constexpr double kSixDigits = 1e-6;

}  // namespace heed::test
