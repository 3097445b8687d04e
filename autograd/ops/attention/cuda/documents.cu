// Threads: a warp per sequence, 32 positions at a time: ascending for the beginnings, descending for the ends. The
// lanes of separators are found by a ballot. Memory: tokens are read twice, 12 bytes are written per position; bound by
// latency, T / 32 steps twice. Integers only, so the results are always the same.
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/documents.hpp"

namespace heed::cuda {
namespace {

__global__ void __launch_bounds__(kWarp)
    document_ranges_kernel(int length, int32_t separator, int32_t* begin, int32_t* end, int32_t* positions,
                           const int32_t* tokens) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t sequence = static_cast<int64_t>(blockIdx.x) * length;
  const auto separators = [&](int first) {
    const int position = first + lane;
    return __ballot_sync(kFullWarp, position < length && tokens[sequence + position] == separator);
  };
  int document = 0;  // the beginning of the document that continues into these positions
  for (int first = 0; first < length; first += kWarp) {
    const unsigned all = separators(first), before = all & ((1u << lane) - 1);
    if (first + lane < length) {
      const int mine = before != 0 ? first + kWarp - __clz(static_cast<int>(before)) : document;
      begin[sequence + first + lane] = mine;
      positions[sequence + first + lane] = first + lane - mine;
    }
    if (all != 0) document = first + kWarp - __clz(static_cast<int>(all));
  }
  document = length;  // the end of the document that continues after these positions
  for (int first = (length - 1) / kWarp * kWarp; first >= 0; first -= kWarp) {
    const unsigned all = separators(first), from_here = all & ~((1u << lane) - 1);
    if (first + lane < length) {
      end[sequence + first + lane] = from_here != 0 ? first + __ffs(static_cast<int>(from_here)) : document;
    }
    if (all != 0) document = first + __ffs(static_cast<int>(all));
  }
}

}  // namespace

void document_ranges(Context&, const DocumentRangesForward& p) {
  const int64_t sequences = p.tokens.shape[0], length = p.tokens.shape[1];
  if (p.tokens.shape.numel() == 0) return;
  launch(document_ranges_kernel, {blocks_for(sequences, 1), kWarp}, static_cast<int>(length), p.separator,
         elements<int32_t>(p.begin), elements<int32_t>(p.end), elements<int32_t>(p.positions),
         elements<int32_t>(p.tokens));
}

}  // namespace heed::cuda
