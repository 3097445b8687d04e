#include "autograd/cpu/token_range.hpp"

namespace heed::cpu {

void require_tokens(const ConstTensorRef& tokens, const TokenRange& range) {
  const int32_t* values = tokens.as<int32_t>();
  const int64_t count = tokens.shape.numel();
  int64_t i = 0;
  while (i < count && ((values[i] >= 0 && values[i] < range.vocabulary) || values[i] == range.ignored)) ++i;
  if (i < count) throw_wrong_token(range, values[i], i);
}

}  // namespace heed::cpu
