#include "autograd/ops/attention/documents.hpp"

#include "autograd/core/device.hpp"

namespace heed {

DocumentRanges document_ranges(const Tensor& tokens, int32_t separator) {
  require<DTypeError>(tokens.dtype() == DType::i32, "document_ranges: tokens are {}, they must be i32", tokens.dtype());
  require<ShapeError>(tokens.rank() == 2, "document_ranges: tokens have shape {}, they must be (B, T)", tokens.shape());
  const auto make = [&] { return empty(tokens.shape(), DType::i32, tokens.device()); };
  const DocumentRanges ranges{.begin = make(), .end = make(), .positions = make()};
  HEED_DISPATCH(tokens.device(), document_ranges,
                {.begin = ranges.begin.ref(),
                 .end = ranges.end.ref(),
                 .positions = ranges.positions.ref(),
                 .tokens = tokens,
                 .separator = separator});
  return ranges;
}

}  // namespace heed
