#include "optim/newton_schulz.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF64;
using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

Matrix as_matrix(const std::vector<double>& values, size_t rows, size_t columns) {
  Matrix m(rows, std::vector<double>(columns));
  for (size_t i = 0; i < rows * columns; ++i) m[i / columns][i % columns] = values[i];
  return m;
}

// a X + b (X X^T) X + c (X X^T)^2 X, five times, as the formula is written.
Matrix plain(Matrix x) {
  double sum = 0;
  for (const auto& row : x) {
    for (const double value : row) sum += value * value;
  }
  for (auto& row : x) {
    for (double& value : row) value /= std::max(std::sqrt(sum), 1e-7);
  }
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x)), once = product(gram, x), twice = product(gram, once);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x[0].size(); ++j) x[i][j] = 3.4445 * x[i][j] - 4.7750 * once[i][j] + 2.0315 * twice[i][j];
    }
  }
  return x;
}

void expect_plain(int64_t batch, int64_t rows, int64_t columns, DType dtype) {
  const std::vector<double> values = random_values(batch * rows * columns, 1, 30);
  const std::vector<double> found = newton_schulz(from_values({batch, rows, columns}, dtype, values)).values();
  const int64_t size = rows * columns;
  for (int64_t i = 0; i < batch; ++i) {
    const std::vector<double> one(values.begin() + i * size, values.begin() + (i + 1) * size);
    const Matrix expected = plain(as_matrix(one, static_cast<size_t>(rows), static_cast<size_t>(columns)));
    for (int64_t j = 0; j < size; ++j) {
      const double right = expected[static_cast<size_t>(j / columns)][static_cast<size_t>(j % columns)];
      ASSERT_NEAR(found[static_cast<size_t>(i * size + j)], right, dtype == DType::f64 ? kF64 : test::kNewtonSchulzF32)
          << batch << " of " << rows << " x " << columns << ", matrix " << i << " element " << j;
    }
  }
}

TEST(NewtonSchulz, IsTheFormulaForWideAndTallMatrices) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {1, 9}, {9, 1}, {7, 7}, {5, 33}, {33, 5}, {64, 48}}) {
    for (const int64_t batch : {1, 3}) {
      for (const DType dtype : {DType::f32, DType::f64}) expect_plain(batch, rows, columns, dtype);
    }
  }
}

// A diagonal matrix keeps its form, and its singular values are its elements.
TEST(NewtonSchulz, BringsSingularValuesNearOne) {
  const std::vector<double> singular{1, 0.9, 0.5, 0.2, 0.1, 0.03, 0.01, 0.004};
  const auto n = static_cast<int64_t>(singular.size());
  std::vector<double> values(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i * n + i)] = 1000 * singular[static_cast<size_t>(i)];
  const std::vector<double> found = newton_schulz(from_values({1, n, n}, DType::f64, values)).values();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double value = found[static_cast<size_t>(i * n + j)];
      if (i != j) {
        EXPECT_EQ(value, 0) << i << " " << j;
      } else {
        EXPECT_GT(value, 0.6) << i;
        EXPECT_LT(value, 1.25) << i;
      }
    }
  }
}

TEST(NewtonSchulz, ZeroStaysZeroAndNanShows) {
  for (const double value : newton_schulz(zeros({2, 3, 4}, DType::f32)).values()) EXPECT_EQ(value, 0);
  std::vector<double> values = random_values(24, 2);
  values[15] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> found = newton_schulz(from_values({2, 3, 4}, DType::f32, values)).values();
  for (size_t i = 0; i < 12; ++i) EXPECT_TRUE(std::isfinite(found[i])) << "the other matrix";
  for (size_t i = 12; i < 24; ++i) EXPECT_TRUE(std::isnan(found[i])) << i;
}

TEST(NewtonSchulz, SameBitsForAnyThreads) {
  const int threads = cpu::max_threads();
  std::vector<double> first;
  for (const int count : {1, 2, 3}) {
    cpu::set_max_threads(count);
    const std::vector<double> found =
        newton_schulz(from_values({3, 96, 160}, DType::f64, random_values(3 * 96 * 160, 3))).values();
    if (first.empty()) first = found;
    EXPECT_EQ(found, first) << count << " threads";
  }
  cpu::set_max_threads(threads);
}

TEST(NewtonSchulz, RefusesOtherShapesAndDtypes) {
  EXPECT_THROW(newton_schulz(Tensor()), ShapeError);
  EXPECT_THROW(newton_schulz(zeros({3, 4}, DType::f32)), ShapeError);
  EXPECT_THROW(newton_schulz(zeros({1, 0, 4}, DType::f32)), ShapeError);
  EXPECT_THROW(newton_schulz(zeros({1, 3, 4}, DType::bf16)), DTypeError);
}

}  // namespace
}  // namespace heed::optim
