#include "src/cublas_lt.hpp"

#include <hostcuda.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "src/device.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

constexpr size_t kVersion = 130000, kWorkspaceBytes = 4096;

// All handles, descriptions, layouts and preferences.
std::set<const void*>& objects() {
  static auto* objects = new std::set<const void*>;
  return *objects;
}

template <class T>
cublasStatus_t create(T** object, T value) {
  const Guard guard(runtime_lock);
  if (object == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "null where an object is to be created");
  if (require_device() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *object = new T(value);
  objects().insert(*object);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* object) {
  const Guard guard(runtime_lock);
  if (objects().erase(object) == 0) return refuse(CUBLAS_STATUS_INVALID_VALUE, "destroys what is no live object");
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

// An attribute has one size, and the library refuses another.
template <class T>
cublasStatus_t set(T& attribute, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, format("an attribute of %zu bytes, not %zu", sizeof(T), bytes));
  }
  std::memcpy(&attribute, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t require_objects(std::initializer_list<const void*> all) {
  const bool live = std::all_of(all.begin(), all.end(), [](const void* object) { return is_live_object(object); });
  return live ? CUBLAS_STATUS_SUCCESS : refuse(CUBLAS_STATUS_INVALID_VALUE, "an object that is null or was destroyed");
}

// What an algorithm remembers of the question that it is the answer to.
struct Algorithm {
  uint32_t kind;  // types, operations, epilogue
  uint32_t alignments[4];
  uint32_t bias_alignment, aux_alignment;
  uint64_t workspace_bytes;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

uint32_t kind_of(const Problem& problem) {
  const auto& desc = problem.desc;
  uint32_t kind = static_cast<uint32_t>(desc.epilogue);
  const int aux = problem.has_aux() ? static_cast<int>(desc.aux_leading_dimension) : 0;
  for (const int part : {int{desc.compute_type}, int{desc.operation_a}, int{desc.operation_b}, int{problem.a.type},
                         int{problem.c.type}, int{problem.d.type}, aux}) {
    kind = kind * 131 + static_cast<uint32_t>(part);
  }
  return kind;
}

uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return bits == 0 ? 256 : static_cast<uint32_t>(std::min<uintptr_t>(bits & -bits, 256));
}

cublasStatus_t check_algorithm(const cublasLtMatmulAlgo_t& opaque, const Problem& problem, const Operands& operands,
                               size_t workspace_bytes) {
  Algorithm algorithm;
  std::memcpy(&algorithm, opaque.data, sizeof(algorithm));
  if (algorithm.kind != kind_of(problem)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "the algorithm was chosen for other types, operations or another epilogue");
  }
  const void* matrices[] = {operands.a, operands.b, operands.c, operands.d};
  for (int i = 0; i < 4; ++i) {
    if (alignment_of(matrices[i]) < algorithm.alignments[i]) {
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                    format("%c is aligned to %u bytes, the algorithm was chosen for %u (a preference)", "ABCD"[i],
                           alignment_of(matrices[i]), algorithm.alignments[i]));
    }
  }
  if (alignment_of(problem.desc.bias) < algorithm.bias_alignment) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the bias is aligned to fewer bytes than when the algorithm was chosen");
  }
  if (alignment_of(problem.desc.aux) < algorithm.aux_alignment) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "the memory for the input of GELU is aligned to fewer bytes than when the algorithm was chosen");
  }
  if (workspace_bytes < algorithm.workspace_bytes) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, format("a workspace of %zu bytes, the algorithm needs %zu",
                                                      workspace_bytes, size_t{algorithm.workspace_bytes}));
  }
  return CUBLAS_STATUS_SUCCESS;
}

Products products{};

// Whether all columns begin at multiples of 16 bytes.
bool is_aligned(const void* memory, const cublasLtMatrixLayoutOpaque_t& layout) {
  const auto bytes = static_cast<int64_t>(bytes_of(layout.type));
  const bool columns = layout.columns == 1 || layout.leading_dimension * bytes % 16 == 0;
  const bool batches = layout.batches == 1 || layout.batch_stride * bytes % 16 == 0;
  return reinterpret_cast<uintptr_t>(memory) % 16 == 0 && columns && batches;
}

void count_product(const Problem& problem, const Operands& operands) {
  ++products.all;
  const bool inputs = is_aligned(operands.a, problem.a) && is_aligned(operands.b, problem.b);
  const bool outputs = is_aligned(operands.c, problem.c) && is_aligned(operands.d, problem.d);
  if (!inputs || !outputs) ++products.unaligned;
}

}  // namespace

Products take_products() { return std::exchange(products, {}); }

bool without_gelu_algorithms = false;
bool epilogues_are_invalid = false;

bool is_live_object(const void* object) { return objects().count(object) != 0; }

std::vector<std::string> live_cublas_objects() {
  if (objects().empty()) return {};
  return {format("%zu objects of cuBLASLt", objects().size())};
}

cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  if (!quiet) std::fprintf(stderr, "hostcuda: cuBLASLt: %s\n", why.c_str());
  return status;
}

}  // namespace hostcuda

using namespace hostcuda;

size_t cublasLtGetVersion() { return kVersion; }

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown status";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
const char* cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle, cublasLtContext{}); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return create(desc, cublasLtMatmulDescOpaque_t{compute_type, scale_type});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const Guard guard(runtime_lock);
  if (const cublasStatus_t status = require_objects({desc}); status != CUBLAS_STATUS_SUCCESS) return status;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return set(desc->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->operation_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->operation_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(desc->aux_leading_dimension, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(desc->aux_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(desc->bias_type, value, bytes);
  }
  return refuse(CUBLAS_STATUS_NOT_SUPPORTED, format("attribute %d of a product", int{attribute}));
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading_dimension) {
  return create(layout, cublasLtMatrixLayoutOpaque_t{type, rows, columns, leading_dimension});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  const Guard guard(runtime_lock);
  if (const cublasStatus_t status = require_objects({layout}); status != CUBLAS_STATUS_SUCCESS) return status;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout->batch_stride, value, bytes);
  }
  return refuse(CUBLAS_STATUS_NOT_SUPPORTED, format("attribute %d of a layout", int{attribute}));
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, cublasLtMatmulPreferenceOpaque_t{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  const Guard guard(runtime_lock);
  if (const cublasStatus_t status = require_objects({preference}); status != CUBLAS_STATUS_SUCCESS) return status;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference->alignments[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference->alignments[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference->alignments[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference->alignments[3], value, bytes);
  }
  return refuse(CUBLAS_STATUS_NOT_SUPPORTED, format("attribute %d of a preference", int{attribute}));
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  const Guard guard(runtime_lock);
  cublasStatus_t status = require_objects({handle, desc, a, b, c, d, preference});
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (requested < 1) return refuse(CUBLAS_STATUS_INVALID_VALUE, "asks for no algorithm");
  *returned = 0;
  const Problem problem{*desc, *a, *b, *c, *d};
  if (status = check_problem(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  if (without_gelu_algorithms && problem.has_gelu()) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm with GELU, as was asked for");
  }
  if (epilogues_are_invalid && (problem.has_gelu() || problem.has_bias())) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "epilogues_are_invalid is set, which rejects bias and GELU epilogues");
  }
  // Parts of a sum in bf16, added in bf16, would be no sum in f32.
  const bool rounds_parts = (preference->reduction_schemes &
                             (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
  if (rounds_parts && problem.d.type == CUDA_R_16BF) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the preference allows sums of parts that were rounded to bf16");
  }
  // One algorithm, which uses some of the workspace if it may.
  Algorithm algorithm{kind_of(problem),
                      {},
                      problem.has_bias() ? alignment_of(desc->bias) : 1,
                      problem.has_aux() ? alignment_of(desc->aux) : 1,
                      std::min<uint64_t>(preference->workspace_bytes, kWorkspaceBytes)};
  std::copy_n(preference->alignments, 4, algorithm.alignments);
  results[0] = {};
  std::memcpy(results[0].algo.data, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Guard guard(runtime_lock);
  cublasStatus_t status = require_objects({handle, desc, a_layout, b_layout, c_layout, d_layout});
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Problem problem{*desc, *a_layout, *b_layout, *c_layout, *d_layout};
  if (status = check_problem(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr || is_device(alpha) || is_device(beta)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "alpha and beta are pointers to memory of the host");
  }
  Operands operands{a, b, c, d, 0, 0, workspace, 0};
  std::memcpy(&operands.alpha, alpha, sizeof(float));
  std::memcpy(&operands.beta, beta, sizeof(float));
  if (algo != nullptr) {
    status = check_algorithm(*algo, problem, operands, workspace_bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    operands.workspace_bytes = std::min(workspace_bytes, kWorkspaceBytes);
  }
  if (status = check_operands(problem, operands); status != CUBLAS_STATUS_SUCCESS) return status;
  count_product(problem, operands);
  const cudaError_t error = enqueue_device(stream, "cublasLtMatmul", [=] { run_product(problem, operands); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
