// The emulated cuBLASLt: descriptions, what is refused, and the product itself.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute_type;
  cudaDataType_t scale_type;
  cublasLtPointerMode_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_leading_dimension = 0;
  int32_t bias_type = -1, aux_type = -1;  // -1: as D
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading_dimension;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignments[4] = {256, 256, 256, 256};  // of A, B, C and D
};

namespace hostcuda {

// Everything about a product but where its matrices lie.
struct Problem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  bool has_bias() const { return (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_gelu() const { return (desc.epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
  bool has_aux() const { return (desc.epilogue & 128) != 0; }
  bool has_bias_gradient() const {
    return desc.epilogue == CUBLASLT_EPILOGUE_BGRADA || desc.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return desc.operation_a == CUBLAS_OP_N ? a.columns : a.rows; }
  uint64_t bias_length() const { return desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n() : m(); }
};

struct Operands {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
  void* workspace;
  size_t workspace_bytes;  // as much as the algorithm asked for
};

// SUCCESS, or what the library says to this and why (on stderr).
cublasStatus_t check_problem(const Problem& problem);
cublasStatus_t check_operands(const Problem& problem, const Operands& operands);

// Is it a live object? The functions below take only those.
bool is_live_object(const void* object);
std::vector<std::string> live_cublas_objects();

size_t bytes_of(cudaDataType_t type);
cublasStatus_t refuse(cublasStatus_t status, const std::string& why);

// When its turn comes on the stream.
void run_product(const Problem& problem, const Operands& operands);

}  // namespace hostcuda
