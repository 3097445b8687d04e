// libFuzzer on the strict reader of JSON, in memory.
//
// The first byte chooses whether the others are the text itself, or choose pieces that often form valid JSON.
// Text that the reader accepts must be equal after printing and parsing again, and at most kMaxJsonDepth deep. Each
// member must give a value of the requested type or an error of one line.
#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/io/json_reader.hpp"
#include "tests/fuzz/fuzz_input.hpp"

namespace {

using namespace heed;
using heed::data::JsonObject, heed::test::expect;

int depth_of(const nlohmann::json& json) {
  int deepest = 0;
  for (const auto& value : json) {
    if (json.is_structured()) deepest = std::max(deepest, depth_of(value));
  }
  return json.is_structured() ? 1 + deepest : 0;
}

// Whether `read` gives a value. Otherwise it must throw an error of one line.
bool gives_value(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const DataError& error) {
    const std::string_view text = error.what();
    expect(text.starts_with("file") && text.find('\n') == std::string_view::npos);
    return false;
  }
}

void try_members(const nlohmann::json& json) {
  const JsonObject object(json, "file");
  for (auto item = json.begin(); item != json.end(); ++item) {
    const std::string& key = item.key();
    const nlohmann::json& value = *item;
    expect(object.has(key) == !value.is_null());
    expect(gives_value([&] { object.number(key); }) == value.is_number());
    expect(gives_value([&] { object.flag(key); }) == value.is_boolean());
    expect(gives_value([&] { object.text(key); }) == value.is_string());
    expect(gives_value([&] { object.list(key); }) == value.is_array());
    expect(gives_value([&] { object.object(key); }) == value.is_object());
    gives_value([&] {
      const int64_t number = object.integer(key, -1000, 1000);
      expect(value.is_number_integer() && -1000 <= number && number <= 1000);
    });
  }
}

std::string joined_pieces(std::string_view bytes) {
  constexpr const char* kPieces[] = {"{", "}",    "[",     "]",    ",",    "\"a\":", "\"\\n\":",    "\"\\u0000\":",
                                     "1", "-0.5", "1e999", "true", "null", "\"b\"",  "\"\\\"\\n\"", " "};
  std::string text;
  for (const char byte : bytes) text += kPieces[static_cast<uint8_t>(byte) % std::size(kPieces)];
  return text;
}

void try_text(std::string_view text) {
  gives_value([&] {
    const nlohmann::json json = data::parse_json(text, "file");
    expect(depth_of(json) <= data::kMaxJsonDepth);
    expect(data::parse_json(json.dump(), "file") == json);
    try_members(json);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) try_text(bytes);
  if (data[0] % 2 == 1) try_text(joined_pieces(bytes));
  return 0;
}
