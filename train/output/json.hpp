// JSON text, built from the inside out: object({{"ms", number(1.5)}, {"names", list({text("a"), text("b")})}}).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::train::json {

std::string text(std::string_view value);  // UTF-8, quoted
std::string number(double value);          // nine digits; null for NaN and Inf, which JSON does not have
std::string number(int64_t value);
// Of values that are JSON already, on one line.
std::string list(const std::vector<std::string>& values);
std::string object(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace heed::train::json
