#include "autograd/ops/cross_entropy.hpp"

#include <cmath>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require<DTypeError>(is_floating(logits.dtype()), "cross_entropy: logits are {}, they must be f32, bf16 or f64",
                      logits.dtype());
  require<DTypeError>(targets.dtype() == DType::i32, "cross_entropy: targets are {}, they must be i32",
                      targets.dtype());
  require_one_device("cross_entropy", {{"logits", logits}, {"targets", targets}});
  require<ShapeError>(logits.rank() >= 1 && logits.shape().columns() >= 1,
                      "cross_entropy: logits have shape {}, they need a last dimension of at least 1", logits.shape());
  require<ShapeError>(
      logits.rank() == targets.rank() + 1 && targets.shape().with_appended(logits.shape().columns()) == logits.shape(),
      "cross_entropy: targets have shape {}, it must be that of logits {} without the last dimension", targets.shape(),
      logits.shape());
  require<ValueError>(std::isfinite(options.denominator.value) && options.denominator.value >= 0,
                      "cross_entropy: denominator is {}, it must be above 0, or 0 for the number of targets",
                      options.denominator.value);
  require<ValueError>(options.vocab >= 0 && options.vocab <= logits.shape().columns(),
                      "cross_entropy: vocab is {}, for logits {} it must be at most {}, or 0 for all columns",
                      options.vocab, logits.shape(), logits.shape().columns());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& given) {
  check(logits, targets, given);
  CrossEntropyOptions options = given;
  if (options.vocab == 0) options.vocab = logits.shape().columns();
  const DType exact = accumulation_dtype(logits.dtype());
  Output loss({}, exact, logits.device());
  const Tensor row_max = empty({targets.numel()}, exact, logits.device());
  const Tensor row_sum = empty({targets.numel()}, exact, logits.device());
  const Tensor weight = empty({}, DType::f64, logits.device());
  HEED_DISPATCH(logits.device(), cross_entropy_forward,
                {.loss = loss.ref(),
                 .row_max = row_max.ref(),
                 .row_sum = row_sum.ref(),
                 .weight = weight.ref(),
                 .logits = logits,
                 .targets = targets,
                 .options = options});
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
