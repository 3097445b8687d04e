#include "train/output/number_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace heed::train {

std::string loss_text(double value) {
  return std::isfinite(value) && std::abs(value) < 1000 ? fmt::format("{:.4f}", value) : number_text(value, 6);
}

std::string number_text(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, digits);
}

std::string count_text(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e9;  // about 30 years: longer estimates are meaningless
  if (!(seconds < kLongest)) return "?";
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string plural(int64_t count, std::string_view name) {
  return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
}

}  // namespace heed::train
