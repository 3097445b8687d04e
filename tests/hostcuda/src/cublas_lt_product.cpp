// The product itself: plain loops in f32 over unpacked matrices, and what is wrong with the memory of its operands.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/access.hpp"
#include "src/cublas_lt.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/shared_memory.hpp"

namespace hostcuda {
namespace {

using Matrix = cublasLtMatrixLayoutOpaque_t;

float load(const void* memory, cudaDataType_t type, size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(memory)[i];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[i]);
}

void store(void* memory, cudaDataType_t type, size_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(memory)[i] = value;
  } else {
    static_cast<__nv_bfloat16*>(memory)[i] = __float2bfloat16(value);
  }
}

// The tanh form. The documentation does not say how exact it is: as exact as the instruction tanh.approx.f32, whose
// result has 11 bits.
float gelu(float x) {
  constexpr float kFactor = 0.7978845608f, kCubic = 0.044715f;  // sqrt(2 / pi)
  const float tanh = std::tanh(kFactor * (x + kCubic * x * x * x));
  int exponent = 0;
  const float digits = std::frexp(tanh, &exponent);  // in [0.5, 1)
  return 0.5f * x * (1 + std::ldexp(std::nearbyint(digits * 2048) / 2048, exponent));
}

size_t column_bytes(const Matrix& matrix) { return matrix.rows * bytes_of(matrix.type); }
size_t stride_bytes(const Matrix& matrix) {
  return static_cast<size_t>(matrix.leading_dimension) * bytes_of(matrix.type);
}
// From the first to the last element of one batch.
size_t extent_bytes(const Matrix& matrix) { return (matrix.columns - 1) * stride_bytes(matrix) + column_bytes(matrix); }

bool lies_in_memory(const char* name, const void* memory, size_t bytes) {
  if (is_live(memory, bytes)) return true;
  report("bounds", format("cublasLtMatmul: %s of %zu bytes leaves its memory: ", name, bytes) + describe(memory));
  return false;
}

// Reports only: the product goes on, as on a GPU.
void require_written(const char* name, const void* memory, const Matrix& matrix) {
  for (uint64_t column = 0; column < matrix.columns; ++column) {
    const auto* begin = static_cast<const char*>(memory) + column * stride_bytes(matrix);
    const void* unwritten = never_written(begin, column_bytes(matrix));
    if (unwritten == nullptr) continue;
    report("uninit", format("cublasLtMatmul: %s reads memory that was never written: ", name) + describe(unwritten));
    return;
  }
}

struct Batch {
  const char *a, *b, *c;
  char* d;
};

bool overlap(const void* x, size_t x_bytes, const void* y, size_t y_bytes) {
  const auto a = reinterpret_cast<uintptr_t>(x), b = reinterpret_cast<uintptr_t>(y);
  return a < b + y_bytes && b < a + x_bytes;
}

bool check_memory(const Problem& problem, const Batch& batch, bool reads_c) {
  const size_t d_bytes = extent_bytes(problem.d);
  if (!lies_in_memory("A", batch.a, extent_bytes(problem.a)) ||
      !lies_in_memory("B", batch.b, extent_bytes(problem.b)) ||
      (reads_c && !lies_in_memory("C", batch.c, extent_bytes(problem.c))) || !lies_in_memory("D", batch.d, d_bytes)) {
    return false;
  }
  require_written("A", batch.a, problem.a);
  require_written("B", batch.b, problem.b);
  if (reads_c) require_written("C", batch.c, problem.c);
  const bool on_a = overlap(batch.d, d_bytes, batch.a, extent_bytes(problem.a));
  const bool on_b = overlap(batch.d, d_bytes, batch.b, extent_bytes(problem.b));
  const bool on_c = reads_c && batch.c != batch.d && overlap(batch.d, d_bytes, batch.c, extent_bytes(problem.c));
  if (on_a || on_b || on_c) {
    report("race", format("cublasLtMatmul: D is written where %s is read: ", on_a   ? "A"
                                                                             : on_b ? "B"
                                                                                    : "C") +
                       describe(batch.d));
  }
  return true;
}

Matrix aux_matrix(const Problem& problem) {
  return {problem.d.type, problem.m(), problem.n(), problem.desc.aux_leading_dimension};
}

// The input of GELU is written, at a time that nobody knows: where nothing else is read or written.
void require_apart(const Problem& problem, const Batch& batch, bool reads_c) {
  struct Other {
    const char* name;
    const void* memory;
    size_t bytes;
  };
  const size_t bias_bytes = problem.has_bias() ? problem.bias_length() * bytes_of(problem.d.type) : 0;
  for (const Other& other :
       {Other{"A", batch.a, extent_bytes(problem.a)}, Other{"B", batch.b, extent_bytes(problem.b)},
        Other{"C", batch.c, reads_c ? extent_bytes(problem.c) : 0}, Other{"D", batch.d, extent_bytes(problem.d)},
        Other{"the bias", problem.desc.bias, bias_bytes}}) {
    const void* aux = problem.desc.aux;
    if (other.bytes == 0 || !overlap(aux, extent_bytes(aux_matrix(problem)), other.memory, other.bytes)) continue;
    report("race", format("cublasLtMatmul: the input of GELU is written where %s lies: ", other.name) + describe(aux));
  }
}

bool check_epilogue_memory(const Problem& problem) {
  const size_t bias_bytes = problem.bias_length() * bytes_of(problem.d.type);
  if (problem.has_bias() || problem.has_bias_gradient()) {
    if (!lies_in_memory("the bias", problem.desc.bias, bias_bytes)) return false;
  }
  if (problem.has_bias()) {
    const void* unwritten = never_written(problem.desc.bias, bias_bytes);
    if (unwritten != nullptr) {
      report("uninit", "cublasLtMatmul: the bias reads memory that was never written: " + describe(unwritten));
    }
  }
  if (!problem.has_aux()) return true;
  return lies_in_memory("the input of GELU", problem.desc.aux, extent_bytes(aux_matrix(problem)));
}

// op(X) as rows x columns in f32, column after column.
std::vector<float> unpack(const void* memory, const Matrix& matrix, bool is_transposed) {
  const size_t rows = is_transposed ? matrix.columns : matrix.rows,
               columns = is_transposed ? matrix.rows : matrix.columns;
  const auto stride = static_cast<size_t>(matrix.leading_dimension);
  std::vector<float> values(rows * columns);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t i = is_transposed ? column + row * stride : row + column * stride;
      values[row + column * rows] = load(memory, matrix.type, i);
    }
  }
  return values;
}

// One column of alpha * op(A) op(B) + beta * C, through the epilogue.
void finish_column(const Problem& problem, const Operands& operands, const Batch& batch, size_t column,
                   const std::vector<float>& sums) {
  const size_t c_begin = column * static_cast<size_t>(problem.c.leading_dimension);
  const size_t d_begin = column * static_cast<size_t>(problem.d.leading_dimension);
  const size_t aux_begin = column * static_cast<size_t>(problem.desc.aux_leading_dimension);
  for (size_t row = 0; row < sums.size(); ++row) {
    float value = operands.alpha * sums[row];
    if (operands.beta != 0) value += operands.beta * load(batch.c, problem.c.type, c_begin + row);
    if (problem.has_bias()) value += load(problem.desc.bias, problem.d.type, row);
    if (problem.has_aux()) store(problem.desc.aux, problem.d.type, aux_begin + row, value);
    store(batch.d, problem.d.type, d_begin + row, problem.has_gelu() ? gelu(value) : value);
  }
  memory_written(batch.d + d_begin * bytes_of(problem.d.type), column_bytes(problem.d));
  if (problem.has_aux()) {
    memory_written(static_cast<char*>(problem.desc.aux) + aux_begin * bytes_of(problem.d.type),
                   column_bytes(problem.d));
  }
}

// Sums over k: of the rows of op(A), or of the columns of op(B).
void store_bias_gradient(const Problem& problem, const std::vector<float>& a, const std::vector<float>& b) {
  const bool of_b = problem.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  const size_t m = problem.m(), k = problem.k();
  for (size_t i = 0; i < problem.bias_length(); ++i) {
    float sum = 0;
    for (size_t j = 0; j < k; ++j) sum += of_b ? b[j + i * k] : a[i + j * m];
    store(problem.desc.bias, problem.d.type, i, sum);
  }
  memory_written(problem.desc.bias, problem.bias_length() * bytes_of(problem.d.type));
}

}  // namespace

void run_product(const Problem& problem, const Operands& operands) {
  if (operands.workspace_bytes != 0) {
    // Used as scratch: nothing may depend on what was or is there.
    if (!lies_in_memory("the workspace", operands.workspace, operands.workspace_bytes)) return;
    std::memset(operands.workspace, kPoison, operands.workspace_bytes);
    memory_allocated(operands.workspace, operands.workspace_bytes);
  }
  if (!check_epilogue_memory(problem)) return;
  const size_t m = problem.m(), n = problem.n(), k = problem.k();
  for (int32_t i = 0; i < problem.d.batches; ++i) {
    const auto offset = [i](const Matrix& matrix) {
      return i * matrix.batch_stride * static_cast<int64_t>(bytes_of(matrix.type));
    };
    const Batch batch{static_cast<const char*>(operands.a) + offset(problem.a),
                      static_cast<const char*>(operands.b) + offset(problem.b),
                      static_cast<const char*>(operands.c) + offset(problem.c),
                      static_cast<char*>(operands.d) + offset(problem.d)};
    if (!check_memory(problem, batch, operands.beta != 0)) return;
    if (problem.has_aux()) require_apart(problem, batch, operands.beta != 0);
    const std::vector<float> a = unpack(batch.a, problem.a, problem.desc.operation_a == CUBLAS_OP_T);
    const std::vector<float> b = unpack(batch.b, problem.b, problem.desc.operation_b == CUBLAS_OP_T);
    std::vector<float> sums(m);
    for (size_t column = 0; column < n; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (size_t j = 0; j < k; ++j) {
        const float factor = b[j + column * k];
        const float* a_column = &a[j * m];
        for (size_t row = 0; row < m; ++row) sums[row] += factor * a_column[row];
      }
      finish_column(problem, operands, batch, column, sums);
    }
    if (problem.has_bias_gradient()) store_bias_gradient(problem, a, b);
  }
}

}  // namespace hostcuda
