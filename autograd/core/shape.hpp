// Dimensions of a dense row-major tensor: up to five, without heap allocation. The number of elements is checked for
// overflow.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace heed {

// a * b; throws ShapeError if the result does not fit into 63 bits, or a or b is negative.
int64_t checked_multiply(int64_t a, int64_t b);
constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_divide(a, multiple) * multiple; }

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> dimensions);

  int rank() const { return rank_; }
  // Negative positions count from the end, -1 is the last dimension. Throws ShapeError if out of range.
  int64_t operator[](int position) const;
  int64_t numel() const { return numel_; }
  // The tensor as a matrix: columns() is the last dimension, rows() the product of all others.
  int64_t columns() const { return rank_ == 0 ? 1 : dimensions_[rank_ - 1]; }
  int64_t rows() const;
  // The same shape with another last dimension. Throws ShapeError for a scalar.
  Shape with_last(int64_t columns) const;
  // The same shape with one more dimension at the end.
  Shape with_appended(int64_t columns) const;

  bool operator==(const Shape& other) const;
  std::string text() const;  // "(2, 3, 4)"

 private:
  void append(int64_t dimension);

  std::array<int64_t, kMaxRank> dimensions_{};
  int rank_ = 0;
  int64_t numel_ = 1;
};

// `dimension` of x counted from the first one; negative ones count from the end. Throws ShapeError, which names the
// operation, if x has no such dimension.
int checked_dimension(const char* operation, const Shape& x, int dimension);

}  // namespace heed

template <>
struct fmt::formatter<heed::Shape> : fmt::formatter<std::string> {
  auto format(const heed::Shape& shape, format_context& context) const {
    return formatter<std::string>::format(shape.text(), context);
  }
};
