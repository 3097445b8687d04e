#include "autograd/cpu/token_range.hpp"

#include <string>

namespace heed::cpu {
namespace {

// "(1, 3)" for element `flat` of a tensor of this shape.
std::string position(const Shape& shape, int64_t flat) {
  std::string text;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    text = fmt::format("{}{}{}", flat % shape[i], text.empty() ? "" : ", ", text);
    flat /= shape[i];
  }
  return "(" + text + ")";
}

}  // namespace

void require_tokens(const char* what, const ConstTensorRef& tokens, int64_t vocabulary,
                    std::optional<int32_t> ignored) {
  const int32_t* values = tokens.as<int32_t>();
  const int64_t count = tokens.shape.numel();
  int64_t i = 0;
  while (i < count && ((values[i] >= 0 && values[i] < vocabulary) || values[i] == ignored)) ++i;
  if (i == count) return;
  throw ValueError(fmt::format("{} {} at position {}, it must be from 0 to {} (a vocabulary of {}){}", what, values[i],
                               position(tokens.shape, i), vocabulary - 1, vocabulary,
                               ignored ? fmt::format(" or {} (ignored)", *ignored) : ""));
}

}  // namespace heed::cpu
