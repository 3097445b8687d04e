#include <algorithm>
#include <numeric>

#include "autograd/ops/attention/documents.hpp"

namespace heed::cpu {

void document_ranges(Context&, const DocumentRangesForward& p) {
  const int64_t sequences = p.tokens.shape[0], length = p.tokens.shape[1];
  for (int64_t b = 0; b < sequences; ++b) {
    const int32_t* tokens = p.tokens.as<int32_t>() + b * length;
    int32_t *begin = p.begin.as<int32_t>() + b * length, *end = p.end.as<int32_t>() + b * length;
    int32_t* positions = p.positions.as<int32_t>() + b * length;
    for (int64_t first = 0; first < length;) {
      const int64_t last = std::find(tokens + first, tokens + length - 1, p.separator) - tokens;
      std::fill(begin + first, begin + last + 1, static_cast<int32_t>(first));
      std::fill(end + first, end + last + 1, static_cast<int32_t>(last + 1));
      std::iota(positions + first, positions + last + 1, 0);
      first = last + 1;
    }
  }
}

}  // namespace heed::cpu
