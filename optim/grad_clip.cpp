#include "optim/grad_clip.hpp"

#include <cmath>

#include "autograd/core/dispatch.hpp"

namespace heed::optim {

double global_norm(const std::vector<ParameterSpan>& spans) {
  double total = 0;
  for (const ParameterSpan& span : spans) {
    const Tensor& values = span.gradients;
    require<DTypeError>(is_compute_dtype(values.dtype()), "global_norm: gradients are {}, they must be f32 or f64",
                        values.dtype());
    const Tensor sum = empty({}, DType::f64, values.device(), MemoryCategory::workspace);
    HEED_DISPATCH(values.device(), sum_of_squares, {.sum = sum.ref(), .values = values});
    total += sum.item();
  }
  return std::sqrt(total);
}

double clip_factor(double norm, double clip_norm) {
  require_not_negative("optim.clip_norm", clip_norm);
  require<ValueError>(!(norm < 0), "the norm of the gradients is {}, a norm is not negative", norm);
  if (clip_norm == 0) return 1;
  const double factor = clip_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

}  // namespace heed::optim
