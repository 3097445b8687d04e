#include "optim/grad_clip.hpp"

#include <cmath>

#include "autograd/core/device.hpp"

namespace heed::optim {

Tensor squares_of_gradients(const std::vector<ParameterSpan>& spans) {
  const auto count = static_cast<int64_t>(spans.size());
  const Device device = spans.empty() ? Device::cpu : spans[0].gradients.device();
  const Tensor sums = empty({count}, DType::f64, device, MemoryCategory::workspace);
  for (int64_t span = 0; span < count; ++span) {
    const Tensor& values = spans[static_cast<size_t>(span)].gradients;
    require<DTypeError>(is_accumulation_dtype(values.dtype()), "global_norm: gradients are {}, they must be f32 or f64",
                        values.dtype());
    HEED_DISPATCH(device, sum_of_squares, {.sum = sums.slice(span, {}).ref(), .values = values});
  }
  return sums;
}

double global_norm(const std::vector<ParameterSpan>& spans) {
  double total = 0;
  for (const double sum : squares_of_gradients(spans).values()) total += sum;
  return std::sqrt(total);
}

double clip_factor(double norm, double clip_norm) {
  require_not_negative("clip_norm", clip_norm);
  require<ValueError>(!(norm < 0), "the norm of the gradients is {}, a norm is not negative", norm);
  if (clip_norm == 0) return 1;
  const double factor = clip_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

}  // namespace heed::optim
