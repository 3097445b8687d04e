#include "optim/step_state.hpp"

namespace heed::cpu {

void add_loss(Context&, const optim::AddLoss& p) {
  visit_accumulation(p.loss.dtype, [&](auto zero) { p.state->loss += *p.loss.as<decltype(zero)>(); });
}

void compute_clipping(Context&, const optim::ComputeClipping& p) {
  double total = 0;
  for (int64_t span = 0; span < p.sums.shape.numel(); ++span) total += p.sums.as<double>()[span];
  p.state->compute_clipping(total);
}

}  // namespace heed::cpu
