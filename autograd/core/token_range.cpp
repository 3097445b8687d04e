#include "autograd/core/token_range.hpp"

#include <string>

#include "autograd/core/check.hpp"

namespace heed {
namespace {

// The index of flat element `flat` in a tensor of this shape, as text: "(1, 3)".
std::string position(const Shape& shape, int64_t flat) {
  std::string text;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    text = fmt::format("{}{}{}", flat % shape[i], text.empty() ? "" : ", ", text);
    flat /= shape[i];
  }
  return "(" + text + ")";
}

}  // namespace

void throw_wrong_token(const TokenRange& range, int32_t value, int64_t flat) {
  throw ValueError(
      fmt::format("{} {} at position {}, it must be from 0 to {} (a vocabulary of {}){}", range.what, value,
                  position(range.shape, flat), range.vocabulary - 1, range.vocabulary,
                  range.ignored == TokenRange::kNothing ? "" : fmt::format(" or {} (ignored)", range.ignored)));
}

void cpu::require_tokens(const ConstTensorRef& tokens, const TokenRange& range) {
  const int32_t* values = tokens.as<int32_t>();
  const int64_t count = tokens.shape.numel();
  int64_t i = 0;
  while (i < count && ((values[i] >= 0 && values[i] < range.vocabulary) || values[i] == range.ignored)) ++i;
  if (i < count) throw_wrong_token(range, values[i], i);
}

}  // namespace heed
