#include "autograd/ops/cross_entropy.hpp"

#include <cmath>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {

void check_cross_entropy(const char* operation, const Shape& logits, DType dtype, const Tensor& targets,
                         const CrossEntropyOptions& options) {
  require<DTypeError>(is_floating(dtype), "{}: logits are {}, they must be f32, bf16 or f64", operation, dtype);
  require<DTypeError>(targets.dtype() == DType::i32, "{}: targets are {}, they must be i32", operation,
                      targets.dtype());
  require<ShapeError>(logits.rank() >= 1 && logits.columns() >= 1,
                      "{}: logits have shape {}, they need a last dimension of at least 1", operation, logits);
  require<ShapeError>(logits.rank() == targets.rank() + 1 && targets.shape().with_appended(logits.columns()) == logits,
                      "{}: targets have shape {}, it must be that of logits {} without the last dimension", operation,
                      targets.shape(), logits);
  require<ValueError>(std::isfinite(options.denominator.value) && options.denominator.value >= 0,
                      "{}: denominator is {}, it must be above 0, or 0 for the number of targets", operation,
                      options.denominator.value);
  require<ValueError>(options.vocab >= 0 && options.vocab <= logits.columns(),
                      "{}: vocab is {}, for logits {} it must be at most {}, or 0 for all columns", operation,
                      options.vocab, logits, logits.columns());
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& given) {
  check_cross_entropy("cross_entropy", logits.shape(), logits.dtype(), targets, given);
  require_one_device("cross_entropy", {{"logits", logits}, {"targets", targets}});
  CrossEntropyOptions options = given;
  if (options.vocab == 0) options.vocab = logits.shape().columns();
  const Device device = logits.device();
  const DType exact = accumulation_dtype(logits.dtype());
  Output loss({}, exact, device);
  const Tensor row_max = empty({targets.numel()}, exact, device);
  const Tensor row_sum = empty({targets.numel()}, exact, device);
  const Tensor weight = empty({}, DType::f64, device);
  const Tensor losses = empty({targets.numel()}, DType::f64, device, MemoryCategory::workspace);
  HEED_DISPATCH(device, cross_entropy_weight, {.weight = weight.ref(), .targets = targets, .options = options});
  HEED_DISPATCH(device, cross_entropy_rows,
                {.losses = losses.ref(),
                 .row_max = row_max.ref(),
                 .row_sum = row_sum.ref(),
                 .logits = logits,
                 .targets = targets,
                 .options = options});
  HEED_DISPATCH(device, cross_entropy_sum, {.loss = loss.ref(), .losses = losses, .weight = weight});
  return record("cross_entropy", std::move(loss), {logits},
                [logits, targets, row_max, row_sum, weight, options](const Tensor& dloss, Gradients& gradients) {
                  HEED_DISPATCH(logits.device(), cross_entropy_backward,
                                {.dlogits = gradients.sink(0, {.reuse = &logits}),
                                 .dloss = dloss,
                                 .logits = logits,
                                 .targets = targets,
                                 .row_max = row_max,
                                 .row_sum = row_sum,
                                 .weight = weight,
                                 .options = options});
                });
}

}  // namespace heed
