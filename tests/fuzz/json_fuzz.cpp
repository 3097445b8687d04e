// libFuzzer on the strict reader of JSON, in memory.
//
// Text that is read must come back the same from its printed form, be at most kMaxJsonDepth deep, and give for each
// member a value of its type or an error of one line.
#include <algorithm>
#include <functional>
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

// Whether `read` gives a value. Keys of any length come back in the error, so its length is not checked.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  gives_value([&] {
    const nlohmann::json json = data::parse_json(text, "file");
    expect(depth_of(json) <= data::kMaxJsonDepth);
    expect(data::parse_json(json.dump(), "file") == json);
    try_members(json);
  });
  return 0;
}
