// What the fuzz targets share. Their programs are made with the preset asan-ubsan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed::test {

// A finding where it does not hold: libFuzzer keeps the input.
inline void expect(bool holds) {
  if (!holds) __builtin_trap();
}

// What the text of an error must be.
inline void expect_one_line(std::string_view error) {
  constexpr size_t kLongest = 1000;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  expect(!error.empty() && error.size() <= kLongest && std::none_of(error.begin(), error.end(), is_control));
}

// Numbers and texts out of the bytes of an input, in order; behind its end 0 and "".
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t number() { return bytes_.empty() ? uint8_t{0} : static_cast<uint8_t>(take(1)[0]); }
  std::string text() { return std::string(take(number())); }
  std::string_view rest() { return take(bytes_.size()); }

 private:
  std::string_view take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace heed::test
