#include "data/io/json_reader.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

std::string refusal(const std::string& text) {
  return error_text<DataError>([&] { parse_json(text, "a.json"); });
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonReader, RefusesWhatIsNotStrictJson) {
  EXPECT_TRUE(contains(refusal(""), {"a.json is not JSON", "byte 1"}));
  EXPECT_TRUE(contains(refusal("{\"a\": 1} x"), {"not JSON", "byte 10"}));
  EXPECT_TRUE(contains(refusal("{\"a\": 01}"), {"not JSON"}));
  EXPECT_TRUE(contains(refusal("{\"a\": NaN}"), {"not JSON"}));
  EXPECT_TRUE(contains(refusal("[1, 2,]"), {"not JSON", "byte 7"}));
  EXPECT_TRUE(contains(refusal("\"\xff\""), {"not JSON"}));
  EXPECT_TRUE(contains(refusal("[1e999]"), {"not JSON", "number out of range"}));
  EXPECT_TRUE(contains(refusal("{\"a\": {\"b\": 1, \"c\": 2, \"b\": 3}}"), {"a.json has the key \"b\" twice"}));
  EXPECT_EQ(parse_json("{\"a\": {\"b\": 1}, \"b\": 2}", "a.json").at("b"), 2);
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "a.json").is_array());
  EXPECT_TRUE(contains(refusal(nested(kMaxJsonDepth + 1)), {"nested more than 64 deep"}));
  EXPECT_TRUE(contains(refusal(nested(1'000'000)), {"nested more than 64 deep"}));
}

// An object counts as a list does, a number inside the innermost does not.
TEST(JsonReader, CountsObjectsAndListsForTheDepth) {
  const auto objects = [](int depth) {
    std::string text = "1";
    for (int i = 0; i < depth; ++i) text = "{\"a\":" + text + "}";
    return text;
  };
  EXPECT_TRUE(parse_json(objects(kMaxJsonDepth), "a.json").is_object());
  EXPECT_TRUE(contains(refusal(objects(kMaxJsonDepth + 1)), {"a.json has values nested more than 64 deep"}));
}

TEST(JsonReader, ErrorsAreOneLineWhateverTheKey) {
  const nlohmann::json json = parse_json("{\"a\\nb\": \"c\\nd\"}", "a.json");
  const std::string error = error_text<DataError>([&] { JsonObject(json, "a.json").flag("a\nb"); });
  EXPECT_TRUE(contains(error, {"a.json: ", "must be true or false"}));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(JsonReader, LimitsTheSizeOfAFile) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.json", "[1, 2]");
  EXPECT_EQ(read_json_file(path, 6).size(), 2u);
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_json_file(path, 5); }), {"a.json\" has 6 bytes, at most 5"}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_json_file(folder.path(), 5); }), {"folder"}));
}

TEST(JsonReader, MembersSayWhatIsAllowed) {
  const nlohmann::json json = parse_json(
      "{\"n\": 7, \"x\": 0.5, \"on\": true, \"s\": \"t\", \"none\": null, \"list\": [1], \"in\": {\"k\": -1}, "
      "\"huge\": 18446744073709551615}",
      "a.json");
  const JsonObject object(json, "a.json");
  EXPECT_EQ(object.integer("n", 0, 7), 7);
  EXPECT_EQ(object.number("n"), 7);
  EXPECT_EQ(object.number("x"), 0.5);
  EXPECT_TRUE(object.flag("on"));
  EXPECT_EQ(object.text("s"), "t");
  EXPECT_EQ(object.object("in").integer("k", -1, 1), -1);
  EXPECT_EQ(object.list("list").size(), 1u);
  EXPECT_FALSE(object.has("none"));
  EXPECT_EQ(object.integer_or("none", 0, 1, 5), 5);
  EXPECT_EQ(object.text_or("missing", "x"), "x");
  const auto error = [](auto read) { return error_text<DataError>(read); };
  EXPECT_TRUE(contains(error([&] { object.integer("n", 0, 6); }), {"a.json: \"n\" is 7", "an integer from 0 to 6"}));
  EXPECT_TRUE(contains(error([&] { object.integer("x", 0, 6); }), {"\"x\" is 0.5, it must be an integer"}));
  EXPECT_TRUE(contains(error([&] { object.integer("huge", 0, INT64_MAX); }), {"\"huge\" is 18446744073709551615"}));
  EXPECT_TRUE(contains(error([&] { object.flag("n"); }), {"\"n\" is 7, it must be true or false"}));
  EXPECT_TRUE(contains(error([&] { object.text("none"); }), {"\"none\" is null, it must be a string"}));
  EXPECT_TRUE(contains(error([&] { object.number("missing"); }), {"a.json has no key \"missing\""}));
  EXPECT_TRUE(contains(error([&] { object.object("in").integer("k", 0, 1); }), {"a.json: \"in\": \"k\" is -1"}));
  EXPECT_TRUE(contains(error([&] { object.object("list"); }), {"\"list\" is [1], it must be an object"}));
}

// Keys from a file may have any length, and each control character takes six bytes in a message.
TEST(JsonReader, ErrorsShortenLongKeys) {
  const std::string key(5000, '\x7f');
  const nlohmann::json json = parse_json("{\"" + key + "\": {\"n\": 1}}", "a.json");
  const JsonObject object(json, "a.json");
  const auto size = [](auto read) { return error_text<DataError>(read).size(); };
  EXPECT_LT(size([&] { object.integer(key, 0, 1); }), 900u);
  EXPECT_LT(size([&] { object.flag(key + "x"); }), 900u);
  EXPECT_LT(size([&] { object.object(key).flag("n"); }), 900u);
}

}  // namespace
}  // namespace heed::data
