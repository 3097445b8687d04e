// What the emulated cuBLASLt refuses, and what it reports of its operands.
#include "tests/cublas_lt_product.hpp"

namespace hostcuda::test {
namespace {

TEST_F(CublasLt, RefusesWhatTheLibraryRefuses) {
  const auto status = [](const Case& what) { return Product(what).run(); };
  EXPECT_EQ(status({CUDA_R_32F, CUDA_R_16BF}), CUBLAS_STATUS_NOT_SUPPORTED);
  Case tf32{CUDA_R_16BF, CUDA_R_16BF};
  tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  EXPECT_EQ(status(tf32), CUBLAS_STATUS_NOT_SUPPORTED);
  Case batches{CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_BGRADB, 2};
  EXPECT_EQ(status(batches), CUBLAS_STATUS_NOT_SUPPORTED);

  Product product({CUDA_R_16BF, CUDA_R_16BF, false, false, 1, 0, CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F}), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_NOT_SUPPORTED) << "an f32 bias and D in bf16";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{-1}), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{13}), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE) << "no multiple of 8";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{8}), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE) << "fewer than rows";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int32_t{16}), CUBLAS_STATUS_INVALID_VALUE) << "4 bytes";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{16}), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t{CUDA_R_32F}), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_NOT_SUPPORTED) << "GELU's input in f32 and D in bf16";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t{CUDA_R_16BF}), kOk);
  EXPECT_EQ(product.run(), kOk);
  const auto aux_at = [&](void* memory) { return product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory); };
  EXPECT_EQ(aux_at(nullptr), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(aux_at(static_cast<char*>(product.aux.data()) + 8), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE) << "8 bytes";
  EXPECT_EQ(aux_at(static_cast<char*>(product.aux.data()) + 16), kOk);
  EXPECT_EQ(product.run(), kOk);
  EXPECT_EQ(aux_at(product.aux.data()), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(nullptr)), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data()), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE), kOk);
  EXPECT_EQ(product.run(), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST), kOk);
  EXPECT_EQ(product.run(), kOk);
}

TEST_F(CublasLt, RefusesSizesThatDoNotFit) {
  Product product({});
  const auto with_a = [&](uint64_t rows, uint64_t columns, int64_t ld, int32_t batches) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, rows, columns, ld), kOk);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, 4), kOk);
    product.a.layout.reset(layout);
    return product.run();
  };
  EXPECT_EQ(with_a(13, 17, 13, 1), kOk);
  EXPECT_EQ(with_a(12, 17, 13, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with_a(13, 16, 13, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with_a(13, 17, 12, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with_a(13, 17, 13, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with_a(13, 0, 13, 1), CUBLAS_STATUS_INVALID_VALUE);
  product.a.layout.reset();
  EXPECT_EQ(product.run(), CUBLAS_STATUS_INVALID_VALUE);
}

class CublasLtMemory : public CublasLt {
 protected:
  // The one report, "kind: text".
  static std::string only_report() {
    cudaDeviceSynchronize();
    const auto reports = take_reports();
    if (reports.size() != 1) return std::to_string(reports.size()) + " reports";
    return reports[0].kind + ": " + reports[0].text;
  }
  template <class T>
  static std::unique_ptr<DeviceArray<uint8_t>> fresh(T bytes) {
    return std::make_unique<DeviceArray<uint8_t>>(static_cast<size_t>(bytes));
  }
};

TEST_F(CublasLtMemory, OperandsLieInTheirMemory) {
  const size_t needed = (16 * 16 + 13) * 4;  // the last column needs no gap
  Product product({});
  const std::vector<uint8_t> zeros(needed, 0);
  product.a.memory = std::make_unique<DeviceArray<uint8_t>>(zeros);
  EXPECT_EQ(product.run(), kOk);
  EXPECT_TRUE(nothing_reported());
  product.a.memory = std::make_unique<DeviceArray<uint8_t>>(std::vector<uint8_t>(needed - 4, 0));
  product.run();
  EXPECT_EQ(only_report().find("bounds: cublasLtMatmul: A of 1076 bytes leaves its memory: byte 0 of the 1072-byte"),
            0u);
  const float one = 1, zero = 0;
  std::vector<float> host(1000);
  EXPECT_EQ(cublasLtMatmul(product.handle.get(), product.desc.get(), &one, product.c.data(), product.c.layout.get(),
                           host.data(), product.b.layout.get(), &zero, product.c.data(), product.c.layout.get(),
                           product.d.data(), product.d.layout.get(), nullptr, nullptr, 0, nullptr),
            CUBLAS_STATUS_INVALID_VALUE)
      << "sizes";
  cublasLtMatmul(product.handle.get(), product.desc.get(), &one, host.data(), product.a.layout.get(), product.b.data(),
                 product.b.layout.get(), &zero, product.c.data(), product.c.layout.get(), product.d.data(),
                 product.d.layout.get(), nullptr, nullptr, 0, nullptr);
  EXPECT_EQ(only_report().find("bounds: cublasLtMatmul: A of 1076 bytes leaves its memory: host address"), 0u);
}

TEST_F(CublasLtMemory, DOverlapsNothingThatIsRead) {
  Product product({});
  const float one = 1, zero = 0;
  Product square({CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_DEFAULT, 1, 8, 8, 8});
  ASSERT_EQ(cublasLtMatmul(square.handle.get(), square.desc.get(), &one, square.a.data(), square.a.layout.get(),
                           square.b.data(), square.b.layout.get(), &zero, square.c.data(), square.c.layout.get(),
                           square.b.data(), square.d.layout.get(), nullptr, nullptr, 0, nullptr),
            kOk);
  EXPECT_EQ(only_report().find("race: cublasLtMatmul: D is written where B is read"), 0u);
  ASSERT_EQ(cublasLtMatmul(square.handle.get(), square.desc.get(), &one, square.a.data(), square.a.layout.get(),
                           square.a.data(), square.b.layout.get(), &one, square.c.data(), square.c.layout.get(),
                           square.c.data(), square.c.layout.get(), nullptr, nullptr, 0, nullptr),
            kOk);
  EXPECT_TRUE(nothing_reported()) << "C in place, and A twice";
}

TEST_F(CublasLtMemory, TheInputOfGeluIsKeptApart) {
  Product product({CUDA_R_32F, CUDA_R_32F, false, false, 1, 1, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 1, 16, 16, 16});
  const auto with_aux = [&](const Matrix& matrix) {
    EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matrix.data()), kOk);
    product.run();
    return only_report();
  };
  EXPECT_EQ(with_aux(product.aux), "0 reports");
  const std::string text = "race: cublasLtMatmul: the input of GELU is written where ";
  EXPECT_EQ(with_aux(product.a).find(text + "A lies"), 0u);
  EXPECT_EQ(with_aux(product.b).find(text + "B lies"), 0u);
  EXPECT_EQ(with_aux(product.c).find(text + "C lies"), 0u);
  EXPECT_EQ(with_aux(product.d).find(text + "D lies"), 0u);
  EXPECT_EQ(with_aux(product.bias).find("bounds: cublasLtMatmul: the input of GELU of 1024 bytes leaves"), 0u);
  product.what.beta = 0;
  EXPECT_EQ(with_aux(product.c), "0 reports") << "not read";
}

TEST_F(CublasLtMemory, ReadsOnlyWhatWasWritten) {
  if (!kSeesAllAccesses) return;
  Product product({CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_BIAS});
  const size_t bytes = product.b.memory->bytes();
  product.c.memory = fresh(bytes);
  EXPECT_EQ(product.run(), kOk);
  EXPECT_TRUE(nothing_reported()) << "with beta = 0 C is not read";
  product.what.beta = 1;
  EXPECT_EQ(product.run(), kOk);
  EXPECT_EQ(only_report().find("uninit: cublasLtMatmul: C reads memory that was never written: byte 0 of"), 0u);
  product.what.beta = 0;

  product.b.memory = fresh(bytes);
  EXPECT_EQ(cudaMemset(product.b.data(), 0, product.b.stride() * 4 - 8 * 4 - 3 * 4 - 1), cudaSuccess);
  EXPECT_EQ(product.run(), kOk);
  EXPECT_EQ(only_report().find("uninit: cublasLtMatmul: B reads memory that was never written: byte 707 of"), 0u);
  EXPECT_EQ(cudaMemset(product.b.data(), 0, bytes), cudaSuccess);

  product.bias.memory = fresh(13 * 4);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.data()), kOk);
  EXPECT_EQ(product.run(), kOk);
  EXPECT_EQ(only_report().find("uninit: cublasLtMatmul: the bias reads memory that was never written"), 0u);
}

void add_parts_in_f32(cublasLtMatmulPreference_t preference) {
  const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                 sizeof(schemes)),
            kOk);
}

class CublasLtAlgorithm : public CublasLt {
 protected:
  // The answer to the question that belongs to the product.
  static cublasLtMatmulHeuristicResult_t ask(Product& product, uint64_t workspace, uint32_t alignment) {
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
    add_parts_in_f32(preference);
    const Owned<cublasLtMatmulPreference_t> owned(preference);
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8),
              kOk);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, 4), kOk);
    }
    cublasLtMatmulHeuristicResult_t result{};
    int returned = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(product.handle.get(), product.desc.get(), product.a.layout.get(),
                                             product.b.layout.get(), product.c.layout.get(), product.d.layout.get(),
                                             preference, 1, &result, &returned),
              kOk);
    EXPECT_EQ(returned, 1);
    return result;
  }
};

TEST_F(CublasLtAlgorithm, NeedsTheWorkspaceThatItAskedFor) {
  Product product({});
  const auto result = ask(product, 1 << 20, 256);
  ASSERT_GT(result.workspaceSize, 0u);
  DeviceArray<uint8_t> workspace(std::vector<uint8_t>(result.workspaceSize, 1)), small(16);
  EXPECT_EQ(product.run(&result.algo, workspace.data(), result.workspaceSize), kOk);
  EXPECT_TRUE(nothing_reported());
  EXPECT_EQ(workspace.values()[5], 0xFF) << "scratch: what was there is gone";
  take_reports();
  EXPECT_EQ(product.run(&result.algo, workspace.data(), result.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(product.run(&result.algo, workspace.data() + 8, result.workspaceSize), CUBLAS_STATUS_INVALID_VALUE);
  product.run(&result.algo, small.data(), result.workspaceSize);
  EXPECT_EQ(take_reports().size(), 1u) << "smaller than said";
  const auto without = ask(product, 0, 256);
  EXPECT_EQ(without.workspaceSize, 0u);
  EXPECT_EQ(product.run(&without.algo), kOk);
}

TEST_F(CublasLtAlgorithm, CountsOnTheAlignmentThatItWasToldOf) {
  Product product({CUDA_R_32F, CUDA_R_32F, false, false, 1, 0, CUBLASLT_EPILOGUE_BIAS});
  const auto strict = ask(product, 0, 256), relaxed = ask(product, 0, 4);
  EXPECT_EQ(product.run(&strict.algo), kOk);
  const auto shifted = [&](const cublasLtMatmulAlgo_t* algo) {
    const float one = 1, zero = 0;
    const void* b = static_cast<const char*>(product.b.data()) + 4;
    return cublasLtMatmul(product.handle.get(), product.desc.get(), &one, product.a.data(), product.a.layout.get(), b,
                          product.b.layout.get(), &zero, product.c.data(), product.c.layout.get(), product.d.data(),
                          product.d.layout.get(), algo, nullptr, 0, nullptr);
  };
  EXPECT_EQ(shifted(&strict.algo), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(shifted(&relaxed.algo), kOk);
  EXPECT_EQ(shifted(nullptr), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<char*>(product.c.data()) + 4), kOk);
  EXPECT_EQ(product.run(&strict.algo), CUBLAS_STATUS_NOT_SUPPORTED) << "so does the bias";
  take_reports();
}

TEST_F(CublasLtAlgorithm, IsOfOneKindOfProduct) {
  Product product({}), other({CUDA_R_16BF, CUDA_R_32F});
  const auto result = ask(product, 0, 4);
  EXPECT_EQ(other.run(&result.algo), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU), kOk);
  EXPECT_EQ(product.run(&result.algo), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLtAlgorithm, CountsOnHowTheInputOfGeluLies) {
  Product product({CUDA_R_16BF, CUDA_R_16BF, false, false, 1, 0, CUBLASLT_EPILOGUE_GELU_AUX});
  const auto result = ask(product, 0, 2);
  EXPECT_EQ(product.run(&result.algo), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<char*>(product.aux.data()) + 16), kOk);
  EXPECT_EQ(product.run(&result.algo), CUBLAS_STATUS_NOT_SUPPORTED) << "at 16 bytes, not 256";
  EXPECT_EQ(product.run(), kOk) << "without an algorithm the library looks for itself";
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.aux.data()), kOk);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(product.aux_ld() + 8)), kOk);
  EXPECT_EQ(product.run(&result.algo), CUBLAS_STATUS_NOT_SUPPORTED) << "another leading dimension";
}

TEST_F(CublasLtAlgorithm, MayNotAddRoundedParts) {
  for (const bool is_bf16 : {false, true}) {
    Product product(is_bf16 ? Case{CUDA_R_16BF, CUDA_R_16BF} : Case{});
    cublasLtMatmulPreference_t preference = nullptr;
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
    const Owned<cublasLtMatmulPreference_t> owned(preference);
    cublasLtMatmulHeuristicResult_t result{};
    int returned = 7;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(product.handle.get(), product.desc.get(), product.a.layout.get(),
                                             product.b.layout.get(), product.c.layout.get(), product.d.layout.get(),
                                             preference, 1, &result, &returned),
              is_bf16 ? CUBLAS_STATUS_NOT_SUPPORTED : kOk);
  }
}

TEST_F(CublasLtAlgorithm, EpiloguesMayBeInvalid) {
  epilogues_are_invalid = true;
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_DEFAULT}) {
    Product product({CUDA_R_16BF, CUDA_R_16BF, false, false, 1, 0, epilogue});
    cublasLtMatmulPreference_t preference = nullptr;
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
    add_parts_in_f32(preference);
    const Owned<cublasLtMatmulPreference_t> owned(preference);
    cublasLtMatmulHeuristicResult_t result{};
    int returned = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(product.handle.get(), product.desc.get(), product.a.layout.get(),
                                             product.b.layout.get(), product.c.layout.get(), product.d.layout.get(),
                                             preference, 1, &result, &returned),
              epilogue == CUBLASLT_EPILOGUE_DEFAULT ? kOk : CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_F(CublasLtAlgorithm, MayNotBeKnownForGelu) {
  without_gelu_algorithms = true;
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_BIAS}) {
    Product product({CUDA_R_16BF, CUDA_R_16BF, false, false, 1, 0, epilogue});
    cublasLtMatmulPreference_t preference = nullptr;
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
    add_parts_in_f32(preference);
    const Owned<cublasLtMatmulPreference_t> owned(preference);
    cublasLtMatmulHeuristicResult_t result{};
    int returned = 7;
    const bool has_gelu = epilogue == CUBLASLT_EPILOGUE_GELU_AUX;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(product.handle.get(), product.desc.get(), product.a.layout.get(),
                                             product.b.layout.get(), product.c.layout.get(), product.d.layout.get(),
                                             preference, 1, &result, &returned),
              has_gelu ? CUBLAS_STATUS_NOT_SUPPORTED : kOk);
    EXPECT_EQ(returned, has_gelu ? 0 : 1);
  }
}

}  // namespace
}  // namespace hostcuda::test
