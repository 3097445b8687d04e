// JSON text, composed of nested calls: object({{"ms", number(1.5)}, {"names", list({text("a"), text("b")})}}).
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::train::json {

// Quoted; `value` must be UTF-8.
inline std::string text(std::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Nine significant digits; null for NaN and Inf, which JSON does not have.
inline std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; }
inline std::string number(int64_t value) { return fmt::format("{}", value); }

// `values` are JSON already; the result is one line.
inline std::string list(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

inline std::string object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : members) parts.push_back(text(name) + ": " + value);
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace heed::train::json
