// Formats numbers for a log: few digits, always readable.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed::train {

// `digits` significant digits ("0.000994"); NaN without a sign.
inline std::string number_text(double value, int digits = 3) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, digits);
}

// Four decimals ("2.0209"), or six significant digits from 1000 on ("14376.6"); "nan" without a sign, "inf", "-inf".
inline std::string loss_text(double value) {
  return std::isfinite(value) && std::abs(value) < 1000 ? fmt::format("{:.4f}", value) : number_text(value, 6);
}

// "123", "58.4k", "1.24M"
inline std::string count_text(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

// "0:42", "1:02:05", rounded up; "?" from 1e9 on
inline std::string duration_text(double seconds) {
  constexpr double kLongest = 1e9;  // about 30 years: longer estimates are meaningless
  if (!(seconds < kLongest)) return "?";
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

// "1 thread", "2 threads"; `name` is the singular.
inline std::string plural(int64_t count, std::string_view name) {
  return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
}

}  // namespace heed::train
