#include "autograd/cuda/gemm.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/runtime.hpp"

namespace heed::cuda {
namespace {

constexpr int64_t kMostWorkspaceBytes = 32 << 20;  // NVIDIA's recommendation for Hopper

// Of one call: a kernel may have a thread block per batch in a grid dimension that ends at 65535.
constexpr int64_t kMostBatches = 65535;

std::atomic<bool> tf32 = false;

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// Owns a cuBLASLt descriptor.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
class Description {
 public:
  Description() = default;
  ~Description() {
    if (handle_ != nullptr) destroy(handle_);
  }
  Description(Description&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Description& operator=(Description&&) = delete;
  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Operation = Description<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Description<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Description<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)), "describe a product");
}
template <class T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof(value)), "describe a batch");
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)), "state a preference");
}

// The alignment of an address: the largest power of two that divides it, at most 256.
uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// The key of algorithm selection. cuBLASLt is column-major: a row-major matrix is its own transpose there, so C^T =
// op(B)^T op(A)^T is computed, with B as the A operand.
struct Kind {
  int64_t m, n, k, batches, lda, ldc;
  DType in, out;
  bool transpose_a, transpose_b, add, bias, gelu, tf32;
  uint32_t align_a, align_b, align_c, align_bias, align_y;
  auto operator<=>(const Kind&) const = default;
};

// Of row-major matrices.
Layout layout(const Kind& kind, DType dtype, int64_t rows, int64_t columns, int64_t leading_dimension) {
  Layout made;
  check(cublasLtMatrixLayoutCreate(made.out(), type_of(dtype), static_cast<uint64_t>(columns),
                                   static_cast<uint64_t>(rows), leading_dimension),
        "describe a matrix");
  if (kind.batches > 1) {
    set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(kind.batches));
    set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * leading_dimension);
  }
  return made;
}

// Pointers that cuBLASLt may use when it selects an algorithm: the bias, and with gelu the buffer of its input.
struct Epilogue {
  const void* bias = nullptr;
  void* gelu_input = nullptr;
};

struct Plan {
  Operation operation;
  Layout a, b, c;
  std::optional<cublasLtMatmulAlgo_t> algorithm = {};  // none: the library has no algorithm
  size_t workspace_bytes = 0;                          // that the algorithm needs

  Plan(const Kind& kind, const Epilogue& epilogue)
      : a(kind.transpose_a ? layout(kind, kind.in, kind.k, kind.m, kind.lda)
                           : layout(kind, kind.in, kind.m, kind.k, kind.lda)),
        b(kind.transpose_b ? layout(kind, kind.in, kind.n, kind.k, kind.k)
                           : layout(kind, kind.in, kind.k, kind.n, kind.n)),
        c(layout(kind, kind.out, kind.m, kind.n, kind.ldc)) {
    const cublasComputeType_t compute = kind.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(operation.out(), compute, CUDA_R_32F), "describe a product");
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, kind.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, kind.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (kind.bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(kind.out));
    if (kind.gelu) {  // the dtype of its input defaults to that of C
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
          kind.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX);
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, kind.n);
    } else if (kind.bias) {
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    }
    point_to(epilogue);
    choose_algorithm(kind);
  }

  void point_to(const Epilogue& epilogue) const {
    if (epilogue.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
    if (epilogue.gelu_input != nullptr) {
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.gelu_input);
    }
  }

 private:
  void choose_algorithm(const Kind& kind) {
    Preference preference;
    check(cublasLtMatmulPreferenceCreate(preference.out()), "state a preference");
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kMostWorkspaceBytes));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.align_b);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.align_a);
    // Accumulate in f32 until the sums are complete, also with split-K.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    const uint32_t align_out = kind.gelu ? kind.align_y : kind.align_c;
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_out);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_out);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(blas(), operation.get(), b.get(), a.get(), c.get(),
                                                                 c.get(), preference.get(), 1, &result, &found);
    // Some cuBLASLt versions report CUBLAS_STATUS_INVALID_VALUE if they do not support an epilogue for a shape, such as
    // a bias for a matrix with one row or column.
    const bool may_be_refused = kind.bias || kind.gelu;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_INVALID_VALUE && may_be_refused)) return;
    check(status, "choose an algorithm");
    if (found != 1 || result.state != CUBLAS_STATUS_SUCCESS) return;
    algorithm = result.algo;
    workspace_bytes = result.workspaceSize;
  }
};

// Plans are cached: a model has about ten kinds of GEMM. A program whose shapes always change starts again with an
// empty cache when it is full.
std::shared_ptr<const Plan> plan_for(const Kind& kind, const Epilogue& epilogue) {
  constexpr size_t kMostPlans = 512;
  static std::mutex mutex;
  static auto* const plans = new std::map<Kind, std::shared_ptr<const Plan>>;
  const std::lock_guard lock(mutex);
  const auto found = plans->find(kind);
  if (found != plans->end()) return found->second;
  if (plans->size() >= kMostPlans) plans->clear();
  return plans->emplace(kind, std::make_shared<const Plan>(kind, epilogue)).first->second;
}

int64_t columns_of_a(const Gemm& p) { return p.transpose_a ? p.m : p.k; }
int64_t lda_of(const Gemm& p) { return p.lda > 0 ? p.lda : columns_of_a(p); }
int64_t ldc_of(const Gemm& p) { return p.ldc > 0 ? p.ldc : p.n; }

void check_matrices(const Gemm& p, const TensorRef& y = {}) {
  const bool types = (p.a.dtype == DType::f32 || p.a.dtype == DType::bf16) && p.b.dtype == p.a.dtype &&
                     (p.c.dtype == p.a.dtype || p.c.dtype == DType::f32);
  require<DTypeError>(types, "no product on cuda of {} and {} into {}: f32 and bf16 are", p.a.dtype, p.b.dtype,
                      p.c.dtype);
  require<DTypeError>(!p.bias_copy || p.bias_copy.dtype == DType::bf16, "the bf16 copy of a bias is {}",
                      p.bias_copy.dtype);
  for (const ConstTensorRef& matrix : {p.a, p.b, ConstTensorRef(p.c), p.bias, p.bias_copy, ConstTensorRef(y)}) {
    require<DeviceError>(!matrix || matrix.device == Device::cuda,
                         "a tensor on {} is multiplied on cuda: copy it with to(Device::cuda)", name(matrix.device));
  }
  const bool is_padded = lda_of(p) != columns_of_a(p) || ldc_of(p) != p.n;
  require<ShapeError>(!is_padded || (p.batches == 1 && !p.bias && !y),
                      "padded rows with {} batches, a bias or gelu are not for cuda", p.batches);
}

// The GEMM, and y = gelu(C) if y is not empty. Returns false if the library has no algorithm.
bool multiply(Context& context, const Gemm& p, const TensorRef& y) {
  std::optional<Scratch<Bf16>> rounded;
  Epilogue epilogue{.bias = p.bias.data, .gelu_input = y ? p.c.data : nullptr};
  if (p.bias && p.c.dtype == DType::bf16) {
    epilogue.bias = p.bias_copy ? p.bias_copy.data : rounded.emplace(context, p.n).data();
  }
  const Kind kind{.m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .batches = p.batches,
                  .lda = lda_of(p),
                  .ldc = ldc_of(p),
                  .in = p.a.dtype,
                  .out = p.c.dtype,
                  .transpose_a = p.transpose_a,
                  .transpose_b = p.transpose_b,
                  .add = p.add,
                  .bias = static_cast<bool>(p.bias),
                  .gelu = static_cast<bool>(y),
                  .tf32 = tf32 && p.a.dtype == DType::f32,
                  .align_a = alignment_of(p.a.data),
                  .align_b = alignment_of(p.b.data),
                  .align_c = alignment_of(p.c.data),
                  .align_bias = alignment_of(epilogue.bias),
                  .align_y = alignment_of(y.data)};
  const std::shared_ptr<const Plan> plan = plan_for(kind, epilogue);
  if (!plan->algorithm) return false;
  if (rounded) round_to_bf16(context, rounded->data(), static_cast<const float*>(p.bias.data), p.n);
  plan->point_to(epilogue);
  const float one = 1, beta = p.add ? 1 : 0;
  void* const out = y ? y.data : p.c.data;
  const Scratch<char> workspace(context, static_cast<int64_t>(plan->workspace_bytes));
  check(cublasLtMatmul(blas(), plan->operation.get(), &one, p.b.data, plan->b.get(), p.a.data, plan->a.get(), &beta,
                       out, plan->c.get(), out, plan->c.get(), &*plan->algorithm, workspace.data(),
                       plan->workspace_bytes, stream()),
        "multiply");
  return true;
}

template <class Ref>
Ref from_element(Ref ref, int64_t element) {
  using Byte = std::conditional_t<std::is_same_v<Ref, TensorRef>, char, const char>;
  ref.data = static_cast<Byte*>(ref.data) + element * size_bytes(ref.dtype);
  return ref;
}

bool multiply_slices(Context& context, const Gemm& p) {
  Gemm slice = p;
  for (int64_t first = 0; first < p.batches; first += slice.batches) {
    slice.batches = std::min(kMostBatches, p.batches - first);
    slice.a = from_element(p.a, first * p.m * p.k);
    slice.b = from_element(p.b, first * p.k * p.n);
    slice.c = from_element(p.c, first * p.m * p.n);
    gemm(context, slice);
  }
  return true;
}

}  // namespace

void set_tf32(bool on) { tf32 = on; }

bool gemm(Context& context, const Gemm& p) {
  check_matrices(p);
  if (p.m == 0 || p.n == 0 || p.batches == 0) return true;
  require<ShapeError>(p.batches == 1 || !p.bias, "{} products with a bias are not for cuda", p.batches);
  if (p.k == 0) {
    require<ShapeError>(!p.bias, "a product of no columns with a bias is not for cuda");
    if (!p.add) fill(p.c.data, 0, p.batches * p.m * ldc_of(p) * size_bytes(p.c.dtype));
    return true;
  }
  if (p.batches > kMostBatches) return multiply_slices(context, p);
  if (multiply(context, p, {})) return true;
  Gemm rest = p;
  if (p.bias) {  // fallback without the library's bias epilogue
    put_bias(context, p);
    rest.bias = rest.bias_copy = {};
    rest.add = true;
  }
  require<DeviceError>(p.bias && multiply(context, rest, {}),
                       "cuBLASLt knows no way to multiply ({}, {}) by ({}, {}) in {}", p.m, p.k, p.k, p.n, p.a.dtype);
  return false;
}

bool gemm_gelu(Context& context, const Gemm& p, const TensorRef& y) {
  check_matrices(p, y);
  const bool is_bf16 = p.a.dtype == DType::bf16 && p.c.dtype == DType::bf16 && y.dtype == DType::bf16;
  if (!is_bf16 || p.add || p.batches != 1 || p.m == 0 || p.n == 0 || p.k == 0) return false;
  if (p.n % 8 != 0 || alignment_of(p.c.data) < 16) return false;
  const int capability = capability_major();
  return (capability == 9 || capability == 10) && multiply(context, p, y);
}

}  // namespace heed::cuda
