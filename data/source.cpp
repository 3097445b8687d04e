#include "data/source.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::data {

void shift_window(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets) {
  require<ShapeError>(!inputs.empty() && inputs.size() == targets.size() && tokens.size() == inputs.size() + 1,
                      "shift_window: {} tokens, {} inputs, {} targets; they must be T + 1, T and T with T at least 1",
                      tokens.size(), inputs.size(), targets.size());
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
}

}  // namespace heed::data
