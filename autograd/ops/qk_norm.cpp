#include "autograd/ops/qk_norm.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& qkv, const Tensor& q_weight, const Tensor& k_weight, const QkNormOptions& options) {
  require<DTypeError>(is_floating(qkv.dtype()), "qk_norm: qkv is {}, it must be f32, bf16 or f64", qkv.dtype());
  require<ValueError>(options.num_heads >= 1 && options.num_kv_heads >= 1,
                      "qk_norm: num_heads is {} and num_kv_heads is {}, both must be at least 1", options.num_heads,
                      options.num_kv_heads);
  const int64_t heads = options.num_heads + 2 * options.num_kv_heads, columns = qkv.shape().columns();
  require<ShapeError>(qkv.rank() >= 1 && columns > 0 && columns % heads == 0,
                      "qk_norm: qkv has shape {}, with {} query heads and {} key/value heads its last dimension must "
                      "be a multiple of {}",
                      qkv.shape(), options.num_heads, options.num_kv_heads, heads);
  for (const Tensor* weight : {&q_weight, &k_weight}) {
    if (!*weight) continue;
    const char* name = weight == &q_weight ? "q_weight" : "k_weight";
    require<ShapeError>(weight->shape() == Shape{columns / heads},
                        "qk_norm: {} has shape {}, for heads of size {} it must be ({})", name, weight->shape(),
                        columns / heads, columns / heads);
    require<DTypeError>(weight->dtype() == accumulation_dtype(qkv.dtype()),
                        "qk_norm: {} is {}, for qkv of {} it must be {}", name, weight->dtype(), qkv.dtype(),
                        accumulation_dtype(qkv.dtype()));
  }
  require_one_device("qk_norm", {{"qkv", qkv}, {"q_weight", q_weight}, {"k_weight", k_weight}});
  require<ValueError>(options.eps > 0, "qk_norm: eps is {}, it must be above 0", options.eps);
}

}  // namespace

Tensor qk_norm(const Tensor& qkv, const Tensor& q_weight, const Tensor& k_weight, const QkNormOptions& options) {
  check(qkv, q_weight, k_weight, options);
  Output y(qkv.shape(), qkv.dtype(), qkv.device());
  const int64_t rows = qkv.shape().rows();
  const DType exact = accumulation_dtype(qkv.dtype());
  const Tensor q_rstd = empty({rows, options.num_heads}, exact, qkv.device());
  const Tensor k_rstd = empty({rows, options.num_kv_heads}, exact, qkv.device());
  HEED_DISPATCH(qkv.device(), qk_norm_forward,
                {.y = y.ref(),
                 .q_rstd = q_rstd.ref(),
                 .k_rstd = k_rstd.ref(),
                 .qkv = qkv,
                 .q_weight = q_weight,
                 .k_weight = k_weight,
                 .options = options});
  return record("qk_norm", std::move(y), {qkv, q_weight, k_weight},
                [qkv, q_weight, k_weight, q_rstd, k_rstd, options](const Tensor& dy, Gradients& gradients) {
                  HEED_DISPATCH(qkv.device(), qk_norm_backward,
                                {.dqkv = gradients.sink(0, {.reuse = &qkv}),
                                 .dq_weight = gradients.sink(1),
                                 .dk_weight = gradients.sink(2),
                                 .dy = dy,
                                 .qkv = qkv,
                                 .q_weight = q_weight,
                                 .k_weight = k_weight,
                                 .q_rstd = q_rstd,
                                 .k_rstd = k_rstd,
                                 .options = options});
                });
}

}  // namespace heed
