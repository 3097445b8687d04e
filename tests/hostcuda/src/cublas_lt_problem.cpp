// What cublasLtMatmul refuses: what its documentation (cuBLAS 13, "cublasLtMatmul()") forbids, and what it leaves open.
#include <algorithm>

#include "src/cublas_lt.hpp"
#include "src/report.hpp"

namespace hostcuda {
namespace {

bool is_known(cublasOperation_t operation) { return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T; }

cublasStatus_t invalid(const std::string& why) { return refuse(CUBLAS_STATUS_INVALID_VALUE, why); }
cublasStatus_t unsupported(const std::string& why) { return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why); }

cublasStatus_t check_types(const Problem& problem) {
  const auto& desc = problem.desc;
  const bool is_f32 = problem.a.type == CUDA_R_32F, is_bf16 = problem.a.type == CUDA_R_16BF;
  if (desc.scale_type != CUDA_R_32F) return unsupported("alpha and beta in another type than f32");
  if (problem.a.type != problem.b.type || (!is_f32 && !is_bf16))
    return unsupported("A and B are both f32 or both bf16");
  if (problem.c.type != problem.d.type) return unsupported("C and D have one type");
  if (problem.d.type != CUDA_R_32F && (problem.d.type != CUDA_R_16BF || is_f32)) {
    return unsupported("D is f32, or bf16 if A and B are");
  }
  switch (desc.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return CUBLAS_STATUS_SUCCESS;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return is_f32 ? CUBLAS_STATUS_SUCCESS : unsupported("TF32 is for f32 only");
  }
  return unsupported(format("compute type %d", int{desc.compute_type}));
}

cublasStatus_t check_layout(const char* name, const cublasLtMatrixLayoutOpaque_t& layout, uint64_t rows,
                            uint64_t columns, int32_t batches) {
  if (layout.rows != rows || layout.columns != columns) {
    return invalid(format("%s is %zu x %zu where %zu x %zu is needed", name, size_t{layout.rows},
                          size_t{layout.columns}, size_t{rows}, size_t{columns}));
  }
  if (rows == 0 || columns == 0) return invalid(format("%s has no elements", name));
  if (rows > INT32_MAX || columns > INT32_MAX) return unsupported(format("%s has a side of more than 2^31 - 1", name));
  if (layout.leading_dimension < static_cast<int64_t>(rows)) {
    return invalid(
        format("%s has the leading dimension %td and %zu rows", name, layout.leading_dimension, size_t{rows}));
  }
  if (layout.batches != batches) {
    return invalid(format("%s has %d batches, D has %d", name, layout.batches, batches));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_sizes(const Problem& problem) {
  const auto& desc = problem.desc;
  if (!is_known(desc.operation_a) || !is_known(desc.operation_b))
    return invalid("an operation that is neither N nor T");
  if (problem.d.batches < 1) return invalid("no batches");
  const uint64_t m = problem.m(), n = problem.n(), k = problem.k();
  const bool a_is_plain = desc.operation_a == CUBLAS_OP_N, b_is_plain = desc.operation_b == CUBLAS_OP_N;
  const int32_t batches = problem.d.batches;
  for (const cublasStatus_t status :
       {check_layout("D", problem.d, m, n, batches), check_layout("C", problem.c, m, n, batches),
        check_layout("A", problem.a, a_is_plain ? m : k, a_is_plain ? k : m, batches),
        check_layout("B", problem.b, b_is_plain ? k : n, b_is_plain ? n : k, batches)}) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_epilogue(const Problem& problem) {
  const auto& desc = problem.desc;
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      break;
    default:
      return unsupported(format("epilogue %d", int{desc.epilogue}));
  }
  if ((problem.has_bias() || problem.has_bias_gradient()) && desc.bias_type != -1 && desc.bias_type != problem.d.type) {
    return unsupported("a bias and its gradient have the type of D");
  }
  // PyTorch keeps such products from the library, which it has seen refuse them (aten/src/ATen/native/cuda/Blas.cpp).
  if (problem.has_bias() && std::min({problem.m(), problem.n(), problem.k()}) == 1) {
    return invalid("a bias where a matrix has one row or one column");
  }
  if (!problem.has_aux() && !problem.has_bias_gradient()) return CUBLAS_STATUS_SUCCESS;
  if (problem.d.batches > 1) return unsupported("this epilogue with batches");
  if (!problem.has_aux()) return CUBLAS_STATUS_SUCCESS;
  if (desc.aux_type != -1 && desc.aux_type != problem.d.type) return unsupported("the input of GELU has the type of D");
  if (desc.aux_leading_dimension < static_cast<int64_t>(problem.m()) || desc.aux_leading_dimension % 8 != 0) {
    return invalid(format("the input of GELU has the leading dimension %td: at least %zu and a multiple of 8",
                          desc.aux_leading_dimension, size_t{problem.m()}));
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t check_problem(const Problem& problem) {
  if (problem.desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return unsupported("alpha and beta on the device");
  for (const auto check : {check_types, check_sizes, check_epilogue}) {
    if (const cublasStatus_t status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_operands(const Problem& problem, const Operands& operands) {
  const bool reads_c = operands.beta != 0;
  if (operands.a == nullptr || operands.b == nullptr || operands.d == nullptr || (reads_c && operands.c == nullptr)) {
    return invalid("a matrix that is null");
  }
  const bool same_layout =
      problem.c.leading_dimension == problem.d.leading_dimension && problem.c.batch_stride == problem.d.batch_stride;
  if (operands.c == operands.d && !same_layout) return invalid("C is D, with another layout");
  if ((problem.has_bias() || problem.has_bias_gradient()) && problem.desc.bias == nullptr) {
    return invalid("the bias is null");
  }
  if (problem.has_aux()) {
    if (problem.desc.aux == nullptr) return invalid("the memory for the input of GELU is null");
    // Of the matrices it says 16 bytes; of this one it says nothing.
    if (reinterpret_cast<uintptr_t>(problem.desc.aux) % 16 != 0) {
      return invalid("the memory for the input of GELU is not aligned to 16 bytes");
    }
  }
  const auto workspace = reinterpret_cast<uintptr_t>(operands.workspace);
  if (operands.workspace_bytes != 0 && (workspace == 0 || workspace % 16 != 0)) {
    return invalid("the workspace is not aligned to 16 bytes");
  }
  return CUBLAS_STATUS_SUCCESS;
}

size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

}  // namespace hostcuda
