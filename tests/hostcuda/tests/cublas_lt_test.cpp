// The emulated cuBLASLt against plain loops in f64.
#include <algorithm>

#include "tests/cublas_lt_product.hpp"

namespace hostcuda::test {
namespace {

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

void expect_product(const Case& what) {
  Product product(what);
  ASSERT_EQ(product.run(), kOk);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(nothing_reported());
  const auto d = product.d.decode();
  take_reports();  // the gaps of D were never written
  const bool has_gelu = (what.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  for (int32_t batch = 0; batch < what.batches; ++batch) {
    for (size_t column = 0; column < what.n; ++column) {
      for (size_t row = 0; row < what.m; ++row) {
        const double value = product.wanted(row, column, batch), wanted = has_gelu ? gelu(value) : value;
        const double bound = has_gelu ? product.gelu_bound(value, wanted) : product.bound(wanted);
        ASSERT_NEAR(d[product.d.index(row, column, batch)], wanted, bound) << row << " " << column;
      }
    }
  }
}

TEST_F(CublasLt, MultipliesInAllOrders) {
  for (const bool transposes_a : {false, true}) {
    for (const bool transposes_b : {false, true}) {
      for (const auto& [in, out] : {std::pair{CUDA_R_32F, CUDA_R_32F}, std::pair{CUDA_R_16BF, CUDA_R_32F},
                                    std::pair{CUDA_R_16BF, CUDA_R_16BF}}) {
        expect_product({in, out, transposes_a, transposes_b});
        expect_product({in, out, transposes_a, transposes_b, 0.5f, 2});
        expect_product({in, out, transposes_a, transposes_b, 1, 1, CUBLASLT_EPILOGUE_DEFAULT, 3});
      }
    }
  }
  Case tf32;
  tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  expect_product(tf32);
  expect_product({CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_DEFAULT, 1, 1, 1, 1});
}

TEST_F(CublasLt, AddsTheBiasToEachColumnAndThenTakesGelu) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    expect_product({CUDA_R_32F, CUDA_R_32F, false, true, 0.25f, 0, epilogue});
    expect_product({CUDA_R_16BF, CUDA_R_16BF, true, false, 0.25f, 0, epilogue});
    expect_product({CUDA_R_16BF, CUDA_R_32F, true, false, 0.25f, 0, epilogue, 2});
  }
}

TEST_F(CublasLt, KeepsTheInputOfGelu) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
    for (const auto& [in, out] : {std::pair{CUDA_R_32F, CUDA_R_32F}, std::pair{CUDA_R_16BF, CUDA_R_16BF}}) {
      Product product({in, out, true, false, 0.25f, 0, epilogue});
      ASSERT_EQ(product.run(), kOk);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      EXPECT_TRUE(nothing_reported());
      const auto d = product.d.decode(), aux = product.aux.decode();
      take_reports();
      for (size_t column = 0; column < product.what.n; ++column) {
        for (size_t row = 0; row < product.what.m; ++row) {
          const double value = product.wanted(row, column);
          ASSERT_NEAR(aux[row + column * product.aux_ld()], value, product.bound(value));
          ASSERT_NEAR(d[product.d.index(row, column, 0)], gelu(value), product.gelu_bound(value, gelu(value)));
        }
      }
    }
  }
}

// Its tanh is no better than the fast instruction: what must be exact in f32 cannot take it.
TEST_F(CublasLt, GeluIsNotExact) {
  Product product({CUDA_R_32F, CUDA_R_32F, false, false, 0.25f, 0, CUBLASLT_EPILOGUE_GELU});
  ASSERT_EQ(product.run(), kOk);
  const auto d = product.d.decode();
  take_reports();
  double most = 0;
  for (size_t column = 0; column < product.what.n; ++column) {
    for (size_t row = 0; row < product.what.m; ++row) {
      most = std::max(most, std::fabs(d[product.d.index(row, column, 0)] - gelu(product.wanted(row, column))));
    }
  }
  EXPECT_GT(most, 1e-5);
}

// BGRADA: for each row of D the sum over k of op(A); BGRADB: for each column the sum over k of op(B).
TEST_F(CublasLt, SumsTheGradientOfABias) {
  for (const bool transposes : {false, true}) {
    for (const auto epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
      const Case what{CUDA_R_16BF, CUDA_R_32F, transposes, transposes, 0.5f, 2, epilogue};
      expect_product(what);
      Product product(what);
      ASSERT_EQ(product.run(), kOk);
      const auto gradient = product.bias.decode();
      EXPECT_TRUE(take_reports().size() <= 1);  // the gap behind the gradient
      const bool of_b = epilogue == CUBLASLT_EPILOGUE_BGRADB;
      for (size_t i = 0; i < (of_b ? what.n : what.m); ++i) {
        double sum = 0;
        for (size_t j = 0; j < what.k; ++j) {
          if (of_b) sum += transposes ? product.b.at(i, j) : product.b.at(j, i);
          if (!of_b) sum += transposes ? product.a.at(j, i) : product.a.at(i, j);
        }
        EXPECT_EQ(gradient[i], sum) << "neither alpha nor beta counts";
      }
    }
  }
}

// C = A B by rows is C' = B' A' by columns.
TEST_F(CublasLt, RowMajorBySwapping) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 1, 1, 1};  // 2 x 3 and 3 x 2
  DeviceArray<float> device_a(a), device_b(b), d(4);
  Product product({});
  cublasLtMatrixLayout_t b_columns = nullptr, a_columns = nullptr, d_columns = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&b_columns, CUDA_R_32F, 2, 3, 2), kOk);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a_columns, CUDA_R_32F, 3, 2, 3), kOk);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&d_columns, CUDA_R_32F, 2, 2, 2), kOk);
  const float one = 1, zero = 0;
  ASSERT_EQ(cublasLtMatmul(product.handle.get(), product.desc.get(), &one, device_b.data(), b_columns, device_a.data(),
                           a_columns, &zero, d.data(), d_columns, d.data(), d_columns, nullptr, nullptr, 0, nullptr),
            kOk);
  EXPECT_EQ(d.values(), (std::vector<float>{8, 5, 20, 11}));
  for (auto* layout : {b_columns, a_columns, d_columns}) EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), kOk);
}

TEST_F(CublasLt, WhatIsNotFiniteShows) {
  Product product({CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_GELU_AUX});
  product.a.at(3, 4) = INFINITY;
  product.b.at(4, 5) = 0;
  product.a.memory = std::make_unique<DeviceArray<uint8_t>>(product.a.encode());
  product.b.memory = std::make_unique<DeviceArray<uint8_t>>(product.b.encode());
  ASSERT_EQ(product.run(), kOk);
  const auto d = product.d.decode();
  take_reports();
  EXPECT_TRUE(std::isnan(d[product.d.index(3, 5, 0)]));
  EXPECT_FALSE(std::isfinite(d[product.d.index(3, 0, 0)]));
  EXPECT_TRUE(std::isfinite(d[product.d.index(2, 5, 0)]));
}

TEST_F(CublasLt, RunsOnItsStream) {
  Product product({});
  const Stream stream;
  set_streams(Streams::lazy);
  ASSERT_EQ(cudaMemsetAsync(product.d.data(), 0, product.d.memory->bytes(), stream), cudaSuccess);
  ASSERT_EQ(product.run(nullptr, nullptr, 0, stream), kOk);
  std::vector<float> first(1);
  ASSERT_EQ(cudaMemcpy(first.data(), product.d.data(), 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(std::isnan(first[0])) << "the null stream does not wait for this one";
  take_reports();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_NEAR(product.d.decode()[0], product.wanted(0, 0), product.bound(product.wanted(0, 0)));
  EXPECT_TRUE(nothing_reported());
}

// The columns of these matrices begin 16 or 20 elements apart, with m = 14 those of C and D 17.
TEST_F(CublasLt, CountsProductsWithUnalignedColumns) {
  take_products();
  for (const size_t m : {13, 14}) {
    Case what;
    what.m = m;
    Product product(what);
    ASSERT_EQ(product.run(), kOk);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const Products products = take_products();
    EXPECT_EQ(products.all, 1u);
    EXPECT_EQ(products.unaligned, m == 14 ? 1u : 0u);
  }
}

TEST_F(CublasLt, ObjectsAreCounted) {
  const auto before = leaks();
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), kOk);
  EXPECT_EQ(leaks().size(), before.size() + 1);
  EXPECT_EQ(cublasLtDestroy(handle), kOk);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(leaks(), before);
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace hostcuda::test
