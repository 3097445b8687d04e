#include "train/commands/command_options.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

void expect_error(const std::function<void()>& read, const std::string& text) {
  try {
    read();
    ADD_FAILURE() << "accepted: " << text;
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), text);
  }
}

TEST(OptionValue, IntegersAreDecimal) {
  const IntegerRange range{-5, 4'294'967'295};
  const std::vector<std::pair<std::string, int64_t>> values{{"0", 0},
                                                            {"10", 10},
                                                            {"010", 10},
                                                            {"08", 8},
                                                            {"00000000000000000000009", 9},
                                                            {"-5", -5},
                                                            {"4294967295", 4294967295}};
  for (const auto& [text, value] : values) EXPECT_EQ(integer_option("--n", text, range), value) << text;
  for (const char* text : {"", " ", " 1", "1 ", "+1", "0x10", "1e3", "1.0", "ten", "1'000", "-"}) {
    EXPECT_THROW(integer_option("--n", text, range), ConfigError) << text;
  }
}

TEST(OptionValue, SaysTheRange) {
  const std::string allowed = ", it must be an integer from 0 to 4294967295";
  const std::vector<std::pair<std::string, std::string>> shown{{"18446744073709551615", "18446744073709551615"},
                                                               {"4294967296", "4294967296"},
                                                               {"-1", "-1"},
                                                               {"", "\"\""},
                                                               {"4x", "\"4x\""},
                                                               {"\x1b[2J\n", "\"\\u001B[2J\\u000A\""}};
  for (const auto& [text, name] : shown) {
    expect_error([&text = text] { integer_option("--seed", text, {0, 4294967295}); }, "--seed is " + name + allowed);
  }
  expect_error(
      [] {
        number_option("--top-p", "0", {0, 1, true});
      },
      "--top-p is 0, it must be a number above 0 and at most 1");
  expect_error(
      [] {
        number_option("--val-fraction", "", {0, 0.99});
      },
      "--val-fraction is \"\", it must be a number from 0 to 0.99");
}

TEST(OptionValue, NumbersAreDecimalAndFinite) {
  const NumberRange range{-2, 1e30};
  const std::vector<std::pair<std::string, double>> values{
      {"0", 0}, {"1", 1}, {"010", 10}, {"0.5", 0.5}, {"1e-3", 1e-3}, {"2.5E+1", 25}, {"-0.25", -0.25}, {"1e30", 1e30}};
  for (const auto& [text, value] : values) EXPECT_EQ(number_option("--x", text, range), value) << text;
  for (const char* text : {"", " 1", "1 ", "nan", "NAN", "inf", "-inf", "infinity", "0x1p3", "0x1", "1,5", "1e31", "-3",
                           "1e999", "1e-999", "one", "1f", "e5", "-"}) {
    EXPECT_THROW(number_option("--x", text, range), ConfigError) << text;
  }
  EXPECT_EQ(number_option("--x", "0", {0, 1}), 0);
  EXPECT_EQ(number_option("--x", "1", {0, 1, true}), 1);
}

TEST(OptionValue, ChoicesAreExact) {
  EXPECT_EQ(choice_option("--tokenizer", "byte", {"char", "byte", "bpe"}), 1U);
  for (const char* text : {"", "Byte", "byt", "0"}) {
    EXPECT_THROW(choice_option("--tokenizer", text, {"char", "byte", "bpe"}), ConfigError) << text;
  }
  expect_error(
      [] {
        choice_option("--tokenizer", "gpt2", {"char", "byte", "bpe"});
      },
      "--tokenizer is \"gpt2\", it must be char, byte or bpe");
}

}  // namespace
}  // namespace heed::train
