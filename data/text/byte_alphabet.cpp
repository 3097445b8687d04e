#include "data/text/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "data/io/utf8.hpp"

namespace heed::data {

namespace {

constexpr int kNumNames = 0x144;

struct Alphabet {
  std::array<char32_t, 256> names{};
  std::array<int, kNumNames> bytes{};  // by name; -1: no name

  constexpr Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      names[byte] = is_printable ? static_cast<char32_t>(byte) : next++;
      bytes[names[byte]] = byte;
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string byte_level_name(std::string_view bytes) {
  std::string name;
  for (const char c : bytes) append_utf8(name, kAlphabet.names[static_cast<uint8_t>(c)]);
  return name;
}

std::optional<std::string> bytes_of_name(std::string_view name) {
  std::string bytes;
  while (!name.empty()) {
    const Utf8Step step = next_character(name);
    const bool is_name = step.status == Utf8Status::valid && step.code_point < kNumNames;
    if (!is_name || kAlphabet.bytes[step.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.bytes[step.code_point]);
    name.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace heed::data
