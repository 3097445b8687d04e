#include "data/text/byte_level_bpe_format.hpp"

#include <cstring>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  std::string_view bytes(size_t count) {
    require_intact(count <= rest_.size(), "its rules are incomplete");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  template <class Number>
  Number number() {
    Number number = 0;
    std::memcpy(&number, bytes(sizeof(number)).data(), sizeof(number));
    return number;
  }

  // The number of elements of at least element_bytes that follow.
  size_t count(size_t element_bytes) {
    const size_t count = number<uint32_t>();
    require_intact(count <= rest_.size() / element_bytes, "it has more merges or added tokens than bytes");
    return count;
  }

  bool flag() {
    const auto value = number<uint8_t>();
    require_intact(value <= 1, "a flag is neither 0 nor 1");
    return value == 1;
  }

  void finish() const { require_intact(rest_.empty(), "bytes follow the last merge"); }

 private:
  static void require_intact(bool condition, const char* what) {
    require<DataError>(condition, "the stored tokenizer is damaged: {}", what);
  }

  std::string_view rest_;
};

}  // namespace

std::string serialize_rules(const ByteLevelBpeParts& parts) {
  std::string rules;
  append(rules, static_cast<uint8_t>(parts.whole_words));
  append(rules, parts.end_of_text);
  append(rules, static_cast<uint32_t>(parts.added.size()));
  for (const auto& [id, special] : parts.added) {
    append(rules, id);
    append(rules, static_cast<uint8_t>(special));
  }
  append(rules, static_cast<uint8_t>(parts.patterns.size()));
  for (const std::string& pattern : parts.patterns) {
    append(rules, static_cast<uint32_t>(pattern.size()));
    rules += pattern;
  }
  append(rules, static_cast<uint32_t>(parts.merges.size()));
  for (const auto& [left, right] : parts.merges) {
    append(rules, left);
    append(rules, right);
  }
  return rules;
}

ByteLevelBpeParts parse_rules(std::vector<std::string> pieces, std::string_view rules) {
  ByteLevelBpeParts parts;
  parts.pieces = std::move(pieces);
  Reader reader(rules);
  parts.whole_words = reader.flag();
  parts.end_of_text = reader.number<int32_t>();
  parts.added.resize(reader.count(sizeof(int32_t) + 1));
  for (auto& [id, special] : parts.added) {
    id = reader.number<int32_t>();
    special = reader.flag();
  }
  parts.patterns.resize(reader.number<uint8_t>());
  for (std::string& pattern : parts.patterns) pattern = reader.bytes(reader.number<uint32_t>());
  parts.merges.resize(reader.count(2 * sizeof(int32_t)));
  for (auto& [left, right] : parts.merges) {
    left = reader.number<int32_t>();
    right = reader.number<int32_t>();
  }
  reader.finish();
  return parts;
}

}  // namespace heed::data
