#include "train/huggingface/model_weights.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::train {

Matrix zeros(int64_t rows, int64_t columns) {
  return {.rows = rows, .columns = columns, .values = std::vector<float>(rows * columns)};
}

Matrix ones(int64_t rows) { return {.rows = rows, .columns = 1, .values = std::vector<float>(rows, 1.0F)}; }

Matrix rows_of(const Matrix& matrix, int64_t begin, int64_t count) {
  return {.rows = count, .columns = matrix.columns, .values = {matrix.row(begin), matrix.row(begin + count)}};
}

Matrix stacked(const std::vector<Matrix>& parts) {
  Matrix all{.rows = 0, .columns = parts.front().columns, .values = {}};
  for (const Matrix& part : parts) {
    all.rows += part.rows;
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  return all;
}

Matrix transposed(const Matrix& matrix) {
  Matrix result = zeros(matrix.columns, matrix.rows);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t column = 0; column < matrix.columns; ++column) result.row(column)[row] = matrix.row(row)[column];
  }
  return result;
}

Matrix scaled(Matrix matrix, double factor) {
  for (float& value : matrix.values) value = static_cast<float>(value * factor);
  return matrix;
}

Matrix repeated(const Matrix& matrix, int64_t size, int64_t times) {
  std::vector<Matrix> parts;
  for (int64_t begin = 0; begin < matrix.rows; begin += size) {
    for (int64_t time = 0; time < times; ++time) parts.push_back(rows_of(matrix, begin, size));
  }
  return stacked(parts);
}

Matrix halves_swapped(const Matrix& matrix, int64_t size) {
  std::vector<Matrix> parts;
  for (int64_t begin = 0; begin < matrix.rows; begin += size) {
    parts.push_back(rows_of(matrix, begin + size / 2, size - size / 2));
    parts.push_back(rows_of(matrix, begin, size / 2));
  }
  return stacked(parts);
}

Matrix padded(const Matrix& matrix, int64_t rows, int64_t columns) {
  Matrix result = zeros(rows, columns);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    std::copy(matrix.row(row), matrix.row(row) + matrix.columns, result.row(row));
  }
  return result;
}

Matrix ModelWeights::matrix(const std::string& name) const {
  const std::string stored = folder_ + "/" + name;
  const auto found = content_.tensors.find(stored);
  require<CheckpointError>(found != content_.tensors.end(), "checkpoint {} has no tensor {}", content_.file, stored);
  const Tensor tensor = found->second;
  const Shape& shape = tensor.shape();
  Matrix matrix{.rows = shape[0], .columns = shape.rank() > 1 ? shape[1] : 1, .values = {}};
  matrix.values.resize(matrix.rows * matrix.columns);
  if (tensor.dtype() == DType::f64) {
    const double* values = tensor.data<double>();
    std::transform(values, values + matrix.values.size(), matrix.values.begin(),
                   [](double value) { return static_cast<float>(value); });
  } else {
    const float* values = tensor.data<float>();
    std::copy(values, values + matrix.values.size(), matrix.values.begin());
  }
  return matrix;
}

}  // namespace heed::train
