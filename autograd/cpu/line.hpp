// Cache lines of 64 bytes: the alignment of the packed copies of the CPU kernels.
#pragma once

#include <cstdint>

#include "autograd/core/shape.hpp"

namespace heed::cpu {

// Rows are padded to whole cache lines, so that every row is aligned and fits vectors of any length.
template <class T>
inline constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
template <class T>
constexpr int64_t padded(int64_t n) {
  return round_up(n, kLine<T>);
}

}  // namespace heed::cpu
