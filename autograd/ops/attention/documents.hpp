// Packed documents: sequences that hold several documents in a row, which attention must not mix.
#pragma once

#include <cstdint>

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

// Token t of a sequence belongs to the document at [begin[t], end[t]), in which its position is positions[t] = t -
// begin[t]. i32 (B, T) each, or no tensors. Made by document_ranges(): attention does not check the values.
struct DocumentRanges {
  Tensor begin = {}, end = {}, positions = {};
};

// The documents of tokens i32 (B, T): each ends with the separator token, which belongs to it, or with the sequence.
// Has no gradient. Throws ShapeError, DTypeError.
DocumentRanges document_ranges(const Tensor& tokens, int32_t separator);

struct DocumentRangesForward {
  TensorRef begin = {}, end = {}, positions = {};
  ConstTensorRef tokens = {};
  int32_t separator = 0;
};

namespace cpu {
void document_ranges(Context& context, const DocumentRangesForward& p);
}  // namespace cpu
namespace cuda {
void document_ranges(Context& context, const DocumentRangesForward& p);
}  // namespace cuda

}  // namespace heed
