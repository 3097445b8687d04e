// Strict reading of JSON files that other programs wrote: UTF-8, no key twice in an object, at most kMaxJsonDepth
// objects and lists in each other, and a limit on the size before anything is allocated. All functions throw DataError:
// one line with the file, and the byte or the key.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace heed::data {

inline constexpr int kMaxJsonDepth = 64;

// name: the file in error messages, as of quoted_path().
nlohmann::json parse_json(std::string_view text, const std::string& name);
// A regular file of at most max_bytes.
nlohmann::json read_json_file(const std::string& path, int64_t max_bytes);

// An object and the file it is from, for reading its members: the errors name both.
class JsonObject {
 public:
  // where: the object in messages, "config.json" or "config.json: rope_scaling". Throws DataError unless json is an
  // object. Keeps a reference to it.
  JsonObject(const nlohmann::json& json, std::string where);

  const std::string& where() const { return where_; }
  // Whether the member is there and not null.
  bool has(const std::string& key) const;
  // Throw DataError if the member is missing, null or of another type; integers must be from low to high.
  int64_t integer(const std::string& key, int64_t low, int64_t high) const;
  double number(const std::string& key) const;
  bool flag(const std::string& key) const;
  std::string text(const std::string& key) const;
  JsonObject object(const std::string& key) const;
  const nlohmann::json& list(const std::string& key) const;
  // The same; `otherwise` if the member is missing or null.
  int64_t integer_or(const std::string& key, int64_t low, int64_t high, int64_t otherwise) const;
  double number_or(const std::string& key, double otherwise) const;
  bool flag_or(const std::string& key, bool otherwise) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;

  const nlohmann::json& json() const { return json_; }

 private:
  const nlohmann::json& member(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const;

  const nlohmann::json& json_;
  std::string where_;
};

}  // namespace heed::data
