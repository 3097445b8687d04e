#include "train/output/json.hpp"

#include <fmt/format.h>

#include <cmath>

namespace heed::train::json {

std::string text(std::string_view value) {
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

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; }
std::string number(int64_t value) { return fmt::format("{}", value); }

std::string list(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : members) parts.push_back(text(name) + ": " + value);
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace heed::train::json
