// The numbers of one update on a device that the host does not wait for: they stand in its memory. The host writes the
// first part before the update and reads the second after it; in between kernels pass them on. One struct of 64-bit
// values, so that it is copied as a whole.
#pragma once

#include <cstdint>

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::optim {

struct UpdateNumbers {
  // From the host.
  double learning_rate = 0;
  double clip_norm = 0;        // 0: no limit
  int64_t optimizer_step = 0;  // 1 for the optimizer's first update
  uint64_t update = 0;         // what random numbers are drawn for
  // From the host, of one rank; added up over the ranks on the device.
  double targets = 0;    // what losses are divided by
  double must_stop = 0;  // how many ranks wish to stop after this update
  // From the device.
  double loss = 0;            // sum over the micro-batches, and then over the ranks
  double grad_norm = 0;       // of all gradients, before clipping
  double gradient_scale = 1;  // min(1, clip_norm / (grad_norm + 1e-6)), as optim::clip_factor()
  int64_t is_finite = 1;      // 0: loss or grad_norm is not, and the optimizer changes nothing
};

// numbers->loss += loss, a scalar tensor f32.
struct AddLoss {
  UpdateNumbers* numbers = nullptr;
  ConstTensorRef loss = {};
};
// Computes grad_norm, gradient_scale and is_finite; sums (spans) f64: the squares of each span's gradients.
struct CloseGradients {
  UpdateNumbers* numbers = nullptr;
  ConstTensorRef sums = {};
};

}  // namespace heed::optim

namespace heed::cuda {
void add_loss(Context& context, const optim::AddLoss& p);
void close_gradients(Context& context, const optim::CloseGradients& p);
}  // namespace heed::cuda
