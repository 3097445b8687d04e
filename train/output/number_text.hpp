// Formats numbers for a log: few digits, always readable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::train {

// Four decimals ("2.0209"), or six significant digits from 1000 on ("14376.6"); "nan" without a sign, "inf", "-inf".
std::string loss_text(double value);
// `digits` significant digits ("0.000994"); NaN without a sign.
std::string number_text(double value, int digits = 3);
std::string count_text(double value);       // "123", "58.4k", "1.24M"
std::string duration_text(double seconds);  // "0:42", "1:02:05", rounded up; "?" from 1e9 on
// "1 thread", "2 threads"; `name` is the singular.
std::string plural(int64_t count, std::string_view name);

}  // namespace heed::train
