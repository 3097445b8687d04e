// A product by the double of cuBLASLt, with everything that belongs to it.
#pragma once

#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "tests/stream_test.cuh"

namespace hostcuda::test {
inline constexpr auto kOk = CUBLAS_STATUS_SUCCESS;

// Objects of the library, destroyed with their scope.
struct Destroy {
  void operator()(cublasLtMatmulDesc_t object) const { EXPECT_EQ(cublasLtMatmulDescDestroy(object), kOk); }
  void operator()(cublasLtMatrixLayout_t object) const { EXPECT_EQ(cublasLtMatrixLayoutDestroy(object), kOk); }
  void operator()(cublasLtMatmulPreference_t object) const { EXPECT_EQ(cublasLtMatmulPreferenceDestroy(object), kOk); }
  void operator()(cublasLtHandle_t object) const { EXPECT_EQ(cublasLtDestroy(object), kOk); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// A matrix by columns, as cuBLAS has it, with gaps of NaN behind each column and between batches.
struct Matrix {
  cudaDataType type;
  size_t rows, columns, ld;
  int32_t batches;
  std::vector<double> values;  // rounded to the type
  std::unique_ptr<DeviceArray<uint8_t>> memory;
  Owned<cublasLtMatrixLayout_t> layout;

  size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
  size_t stride() const { return ld * columns + 8; }
  size_t index(size_t row, size_t column, int32_t batch) const {
    return row + column * ld + static_cast<size_t>(batch) * stride();
  }
  double& at(size_t row, size_t column, int32_t batch = 0) { return values[index(row, column, batch)]; }

  Matrix(cudaDataType element, size_t height, size_t width, int32_t count, bool is_filled, unsigned seed = 1)
      : type(element), rows(height), columns(width), ld(height + 3), batches(count) {
    values.assign(stride() * static_cast<size_t>(batches), std::nan(""));
    std::mt19937 random(seed);
    for (int32_t batch = 0; batch < batches && is_filled; ++batch) {
      for (size_t i = 0; i < rows * columns; ++i) {
        at(i % rows, i / rows, batch) = (static_cast<int>(random() % 65) - 32) / 16.0;  // exact in bf16
      }
    }
    memory = std::make_unique<DeviceArray<uint8_t>>(encode());
    cublasLtMatrixLayout_t handle = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&handle, type, rows, columns, static_cast<int64_t>(ld)), kOk);
    layout.reset(handle);
    const auto batch_stride = static_cast<int64_t>(stride());
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, 4), kOk);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride, 8),
              kOk);
  }

  std::vector<uint8_t> encode() const {
    std::vector<uint8_t> bytes(values.size() * element_bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      const __nv_bfloat16 rounded(value);
      std::memcpy(&bytes[i * element_bytes()], type == CUDA_R_32F ? static_cast<const void*>(&value) : &rounded,
                  element_bytes());
    }
    return bytes;
  }
  std::vector<double> decode() const {
    const auto bytes = memory->values();
    std::vector<double> decoded(values.size());
    for (size_t i = 0; i < decoded.size(); ++i) {
      float value = 0;
      __nv_bfloat16 rounded;
      std::memcpy(type == CUDA_R_32F ? static_cast<void*>(&value) : &rounded, &bytes[i * element_bytes()],
                  element_bytes());
      decoded[i] = type == CUDA_R_32F ? double{value} : double{static_cast<float>(rounded)};
    }
    return decoded;
  }
  void* data() const { return memory->data(); }
};

struct Case {
  cudaDataType in = CUDA_R_32F, out = CUDA_R_32F;
  bool transposes_a = false, transposes_b = false;
  float alpha = 1, beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t batches = 1;
  size_t m = 13, n = 9, k = 17;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

// One product with everything that belongs to it.
class Product {
 public:
  explicit Product(const Case& value)
      : what(value),
        a(what.in, what.transposes_a ? what.k : what.m, what.transposes_a ? what.m : what.k, what.batches, true, 1),
        b(what.in, what.transposes_b ? what.n : what.k, what.transposes_b ? what.k : what.n, what.batches, true, 2),
        c(what.out, what.m, what.n, what.batches, true, 3),
        d(what.out, what.m, what.n, what.batches, false),
        aux(what.out, what.m + 5, what.n, 1, false),
        bias(what.out, what.epilogue == CUBLASLT_EPILOGUE_BGRADB ? what.n : what.m, 1, 1,
             (what.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0, 4) {
    cublasLtHandle_t new_handle = nullptr;
    cublasLtMatmulDesc_t new_desc = nullptr;
    EXPECT_EQ(cublasLtCreate(&new_handle), kOk);
    EXPECT_EQ(cublasLtMatmulDescCreate(&new_desc, what.compute, CUDA_R_32F), kOk);
    handle.reset(new_handle);
    desc.reset(new_desc);
    const auto operation = [](bool transposes) { return transposes ? CUBLAS_OP_T : CUBLAS_OP_N; };
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(what.transposes_a)), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(what.transposes_b)), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, what.epilogue), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data()), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{what.out}), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data()), kOk);
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(aux_ld())), kOk);
  }

  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof(value));
  }
  size_t aux_ld() const { return (what.m + 7) / 8 * 8; }

  cublasStatus_t run(const cublasLtMatmulAlgo_t* algo = nullptr, void* workspace = nullptr, size_t bytes = 0,
                     cudaStream_t stream = nullptr) {
    return cublasLtMatmul(handle.get(), desc.get(), &what.alpha, a.data(), a.layout.get(), b.data(), b.layout.get(),
                          &what.beta, c.data(), c.layout.get(), d.data(), d.layout.get(), algo, workspace, bytes,
                          stream);
  }

  double sum(size_t row, size_t column, int32_t batch = 0) {
    double total = 0;
    for (size_t j = 0; j < what.k; ++j) {
      total += (what.transposes_a ? a.at(j, row, batch) : a.at(row, j, batch)) *
               (what.transposes_b ? b.at(column, j, batch) : b.at(j, column, batch));
    }
    return total;
  }
  double wanted(size_t row, size_t column, int32_t batch = 0) {
    double value = what.alpha * sum(row, column, batch);
    if (what.beta != 0) value += what.beta * c.at(row, column, batch);
    return (what.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 ? value + bias.at(row, 0) : value;
  }
  // All values in these tests are sums of few small fractions, so f32 holds them exactly; only bf16 and GELU round.
  double bound(double value) const { return (what.out == CUDA_R_16BF ? 1.0 / 256 : 1e-6) * (1 + std::fabs(value)); }
  // gelu(x) = x / 2 (1 + tanh …), with a tanh that is rounded to 11 bits.
  double gelu_bound(double x, double gelu) const { return bound(gelu) + std::fabs(x) / 2 / 4096; }

  Case what;
  Matrix a, b, c, d, aux, bias;
  Owned<cublasLtHandle_t> handle;
  Owned<cublasLtMatmulDesc_t> desc;
};

using CublasLt = KernelTest;

}  // namespace hostcuda::test
