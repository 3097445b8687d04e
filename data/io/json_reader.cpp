#include "data/io/json_reader.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"
#include "data/io/quoted_start.hpp"

namespace heed::data {
namespace {

using Json = nlohmann::json;

constexpr size_t kShownCharacters = 60;

// A value in a message, shortened.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + " …";
  return text;
}

// The callback of the parser, which sees every key before its value.
class KeyCheck {
 public:
  explicit KeyCheck(const std::string& name) : name_(name) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    const bool begins = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    require<DataError>(!begins || depth < kMaxJsonDepth, "{} has values nested more than {} deep", name_,
                       kMaxJsonDepth);
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      require<DataError>(keys_.back().insert(value.get_ref<const std::string&>()).second, "{} has the key {} twice",
                         name_, shown(value));
    }
    return true;
  }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  try {
    return Json::parse(text, KeyCheck(name));
  } catch (const Json::parse_error& error) {
    throw DataError(fmt::format("{} is not JSON: unexpected content at byte {}", name, error.byte));
  } catch (const Json::exception&) {
    throw DataError(fmt::format("{} is not JSON: it has a number out of range", name));
  }
}

Json read_json_file(const std::string& path, int64_t max_bytes) {
  const PosixFile file(path, PosixFile::Access::read);
  const int64_t bytes = file.size();
  require<DataError>(bytes <= max_bytes, "{} has {} bytes, at most {} are read", file.name(), bytes, max_bytes);
  std::string text(bytes, '\0');
  file.read(0, text);
  return parse_json(text, file.name());
}

JsonObject::JsonObject(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  require<DataError>(json_.is_object(), "{} is {}, it must be an object", where_, shown(json_));
}

bool JsonObject::has(const std::string& key) const { return json_.contains(key) && !json_.at(key).is_null(); }

const Json& JsonObject::member(const std::string& key) const {
  require<DataError>(json_.contains(key), "{} has no key {}", where_, quoted_start(key));
  return json_.at(key);
}

void JsonObject::refuse(const std::string& key, const std::string& allowed) const {
  throw DataError(fmt::format("{}: {} is {}, it must be {}", where_, quoted_start(key), shown(json_.at(key)), allowed));
}

int64_t JsonObject::integer(const std::string& key, int64_t low, int64_t high) const {
  const Json& value = member(key);
  const bool is_huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const bool fits =
      value.is_number_integer() && !is_huge && low <= value.get<int64_t>() && value.get<int64_t>() <= high;
  if (!fits) refuse(key, fmt::format("an integer from {} to {}", low, high));
  return value.get<int64_t>();
}

double JsonObject::number(const std::string& key) const {
  if (!member(key).is_number()) refuse(key, "a number");
  return json_.at(key).get<double>();
}

bool JsonObject::flag(const std::string& key) const {
  if (!member(key).is_boolean()) refuse(key, "true or false");
  return json_.at(key).get<bool>();
}

std::string JsonObject::text(const std::string& key) const {
  if (!member(key).is_string()) refuse(key, "a string");
  return json_.at(key).get<std::string>();
}

JsonObject JsonObject::object(const std::string& key) const {
  return {member(key), fmt::format("{}: {}", where_, quoted_start(key))};
}

const Json& JsonObject::list(const std::string& key) const {
  if (!member(key).is_array()) refuse(key, "a list");
  return json_.at(key);
}

int64_t JsonObject::integer_or(const std::string& key, int64_t low, int64_t high, int64_t otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double JsonObject::number_or(const std::string& key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool JsonObject::flag_or(const std::string& key, bool otherwise) const { return has(key) ? flag(key) : otherwise; }

std::string JsonObject::text_or(const std::string& key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

}  // namespace heed::data
