#include "autograd/core/shape.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed {

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &product);
  require<ShapeError>(a >= 0 && b >= 0 && !overflow, "size {} * {} does not fit into 63 bits", a, b);
  return product;
}

Shape::Shape(std::initializer_list<int64_t> dimensions) {
  for (const int64_t dimension : dimensions) append(dimension);
}

void Shape::append(int64_t dimension) {
  require<ShapeError>(rank_ < kMaxRank, "a shape has at most {} dimensions", kMaxRank);
  require<ShapeError>(dimension >= 0, "a dimension of a shape is {}, it must not be negative", dimension);
  numel_ = checked_multiply(numel_, dimension);
  dimensions_[rank_++] = dimension;
}

int64_t Shape::operator[](int position) const {
  const int index = position < 0 ? position + rank_ : position;
  require<ShapeError>(index >= 0 && index < rank_, "dimension {} of a tensor of shape {} does not exist", position,
                      text());
  return dimensions_[index];
}

int64_t Shape::rows() const {
  int64_t rows = 1;
  for (int i = 0; i + 1 < rank_; ++i) rows *= dimensions_[i];
  return rows;
}

Shape Shape::with_last(int64_t columns) const {
  require<ShapeError>(rank_ > 0, "a scalar has no last dimension to change");
  Shape result;
  for (int i = 0; i + 1 < rank_; ++i) result.append(dimensions_[i]);
  result.append(columns);
  return result;
}

Shape Shape::with_appended(int64_t columns) const {
  Shape result = *this;
  result.append(columns);
  return result;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ &&
         std::equal(dimensions_.begin(), dimensions_.begin() + rank_, other.dimensions_.begin());
}

std::string Shape::text() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dimensions_[i]);
  return text + ")";
}

int checked_dimension(const char* operation, const Shape& x, int dimension) {
  require<ShapeError>(x.rank() >= 1, "{}: x is a scalar, it has no dimensions", operation);
  require<ShapeError>(dimension >= -x.rank() && dimension < x.rank(),
                      "{}: x has shape {}, it has no dimension {}: {} to {} are allowed", operation, x, dimension,
                      -x.rank(), x.rank() - 1);
  return dimension < 0 ? dimension + x.rank() : dimension;
}

}  // namespace heed
