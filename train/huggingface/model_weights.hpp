// The parameters of a heed model, as matrices that an export rearranges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/gpt_config.hpp"
#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// Row-major; a vector is a matrix of one column.
struct Matrix {
  int64_t rows = 0, columns = 1;
  std::vector<float> values;

  float* row(int64_t index) { return values.data() + index * columns; }
  const float* row(int64_t index) const { return values.data() + index * columns; }
};

Matrix zeros(int64_t rows, int64_t columns = 1);
Matrix ones(int64_t rows);

// Rows [begin, begin + count).
Matrix rows_of(const Matrix& matrix, int64_t begin, int64_t count);
// One below the other.
Matrix stacked(const std::vector<Matrix>& parts);
Matrix transposed(const Matrix& matrix);
Matrix scaled(Matrix matrix, double factor);
// Each group of `size` rows (a head) `times` times in a row.
Matrix repeated(const Matrix& matrix, int64_t size, int64_t times);
// The two halves of each group of `size` rows swapped.
Matrix halves_swapped(const Matrix& matrix, int64_t size);
// Zeros in new rows or columns at the end.
Matrix padded(const Matrix& matrix, int64_t rows, int64_t columns);

// Keeps a reference to the content.
class ModelWeights {
 public:
  // model: of the checkpoint, with its vocabulary size. folder: of the tensors, "parameters" or "optimizer/ema".
  ModelWeights(const CheckpointContent& content, const nn::GptConfig& model, std::string folder)
      : content_(content), model_(model), folder_(std::move(folder)) {}

  const nn::GptConfig& model() const { return model_; }
  bool has(const std::string& name) const { return content_.tensors.contains(folder_ + "/" + name); }
  // In f32. Throws CheckpointError if there is no such parameter.
  Matrix matrix(const std::string& name) const;
  // The same, or zeros or ones of this size where the model has no such parameter.
  Matrix bias(const std::string& name, int64_t rows) const { return has(name) ? matrix(name) : zeros(rows); }
  Matrix gain(const std::string& name, int64_t rows) const { return has(name) ? matrix(name) : ones(rows); }

 private:
  const CheckpointContent& content_;
  nn::GptConfig model_;
  std::string folder_;
};

}  // namespace heed::train
