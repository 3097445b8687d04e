// All tokens of a text, in memory or on disk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "autograd/core/check.hpp"
#include "data/fingerprint.hpp"

namespace heed::data {

class TokenSequence {
 public:
  virtual ~TokenSequence() = default;

  virtual int64_t size() const = 0;

  // Reads tokens.size() tokens from position `first` on. Throws ValueError if out of range. Thread-safe.
  virtual void read(int64_t first, std::span<int32_t> tokens) const = 0;

  // checksum_of_tokens() of all tokens, as of the construction of the sequence.
  virtual uint64_t checksum() const = 0;

 protected:
  void require_range(int64_t first, std::span<const int32_t> tokens) const {
    const auto count = static_cast<int64_t>(tokens.size());
    require<ValueError>(0 <= first && count <= size() && first <= size() - count,
                        "read: {} tokens from {} on, there are {}", count, first, size());
  }
};

class TokenVector final : public TokenSequence {
 public:
  explicit TokenVector(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  void read(int64_t first, std::span<int32_t> tokens) const override {
    require_range(first, tokens);
    std::copy_n(tokens_.begin() + first, tokens.size(), tokens.begin());
  }
  uint64_t checksum() const override {
    return checksum_of_tokens(size(), [this](int64_t first, std::span<int32_t> tokens) { read(first, tokens); });
  }

 private:
  std::vector<int32_t> tokens_;
};

}  // namespace heed::data
