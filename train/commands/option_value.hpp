// Parses the values of command line options. Every option of every command uses these functions, so that 010 is ten
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
  int64_t low = 0, high = 0;  // inclusive
};

struct NumberRange {
  double low = 0, high = 0;
  bool above_low = false;  // low itself is excluded
};

// Decimal digits with an optional minus sign; leading zeros are ignored.
int64_t integer_option(const std::string& option, const std::string& text, const IntegerRange& range);

// Decimal digits with an optional fraction, exponent and minus sign; hexadecimal numbers, NaN and infinity are errors.
double number_option(const std::string& option, const std::string& text, const NumberRange& range);

// The index of text among the names; it must be equal to one of them.
size_t choice_option(const std::string& option, const std::string& text, const std::vector<std::string>& names);

}  // namespace heed::train
