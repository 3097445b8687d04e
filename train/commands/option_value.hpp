// The values of command line options. Every option of every command is read by these functions, so that 010 is ten
// everywhere and an empty text (an unset variable of a shell) is an error everywhere.
//
// They throw ConfigError: `--seed is "4x", it must be an integer from 0 to 4294967295`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heed::train {

struct IntegerRange {
  int64_t low = 0, high = 0;  // both ends are allowed
};

struct NumberRange {
  double low = 0, high = 0;
  bool above_low = false;  // low itself is not allowed
};

// Decimal digits with a minus sign or none; leading zeros change nothing.
int64_t integer_option(const std::string& option, const std::string& text, const IntegerRange& range);

// Decimal digits with a fraction, an exponent and a minus sign or none of these; not hexadecimal, neither NaN nor
// infinity.
double number_option(const std::string& option, const std::string& text, const NumberRange& range);

// The index of text among the names, which are written exactly so.
size_t choice_option(const std::string& option, const std::string& text, const std::vector<std::string>& names);

}  // namespace heed::train
