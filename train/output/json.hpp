// JSON text, composed of nested calls: object({{"ms", number(1.5)}, {"names", list({text("a"), text("b")})}}).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::train::json {

std::string text(std::string_view value);  // quoted; `value` must be UTF-8
std::string number(double value);          // nine significant digits; null for NaN and Inf, which JSON does not have
std::string number(int64_t value);
// `values` are JSON already; the result is one line.
std::string list(const std::vector<std::string>& values);
std::string object(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace heed::train::json
