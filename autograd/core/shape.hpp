// Dimensions of a dense row-major tensor: up to five, without heap. The number of elements is checked against overflow.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace heed {

// a * b; throws ShapeError where the product does not fit into 63 bits. Both must not be negative.
int64_t checked_multiply(int64_t a, int64_t b);
constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_divide(a, multiple) * multiple; }

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> dimensions);

  int rank() const { return rank_; }
  // Negative positions count from the end, -1 is the last. Throws ShapeError outside the rank.
  int64_t operator[](int position) const;
  int64_t numel() const { return numel_; }
  // Elements of the last dimension and the product of all others: a tensor as a matrix of rows.
  int64_t columns() const { return rank_ == 0 ? 1 : dimensions_[rank_ - 1]; }
  int64_t rows() const;
  // The same shape with another last dimension.
  Shape with_last(int64_t columns) const;
  // The same shape with one more, last dimension.
  Shape with_appended(int64_t columns) const;

  bool operator==(const Shape& other) const;
  std::string text() const;  // "(2, 3, 4)"

 private:
  void append(int64_t dimension);

  std::array<int64_t, kMaxRank> dimensions_{};
  int rank_ = 0;
  int64_t numel_ = 1;
};

}  // namespace heed

template <>
struct fmt::formatter<heed::Shape> : fmt::formatter<std::string> {
  auto format(const heed::Shape& shape, format_context& context) const {
    return formatter<std::string>::format(shape.text(), context);
  }
};
