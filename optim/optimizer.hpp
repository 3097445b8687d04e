// Optimizers over a few long flat spans of parameters.
//
// The parameters of a model lie in flat buffers. A span is one stretch of weights with its gradients, all of it decayed
// or none; an optimizer knows no layers. It updates the weights in place and never changes the gradients.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tensor.hpp"
#include "optim/update_numbers.hpp"

namespace heed::optim {

struct ParameterSpan {
  Tensor weights, gradients;  // (N) each; one dtype for all spans, f32 or f64
  bool decay = false;         // whether weight decay applies
};

// What a step multiplies by, or where that stands on the device.
struct StepNumbers {
  double learning_rate = 0, gradient_scale = 1;
  const UpdateNumbers* on_device = nullptr;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update of all spans. Each gradient is multiplied by gradient_scale on its way in, so that clipping (see
  // grad_clip.hpp) needs no pass of its own. Throws ValueError unless learning_rate is finite and not negative and
  // gradient_scale finite and above 0; nothing has changed then.
  void step(double learning_rate, double gradient_scale);
  // The same on CUDA with numbers that stand in the device's memory when it comes to it: learning_rate, gradient_scale
  // and optimizer_step, which is steps() after the call. Nothing changes where is_finite is 0.
  void step(const UpdateNumbers* numbers);

  // Updates made so far, one count for all spans.
  int64_t steps() const { return steps_; }
  // Goes on counting from here, once state() holds what it held then. Throws ValueError for a negative count.
  void restore_steps(int64_t steps);
  // What the optimizer remembers between updates, by name: "m.0" is the m of span 0. The tensors are the optimizer's
  // own.
  const std::vector<std::pair<std::string, Tensor>>& state() const { return state_; }

 protected:
  // Throws ShapeError, DTypeError or ValueError for no span at all, spans that are not flat or of mixed dtypes, or that
  // share memory.
  explicit Optimizer(std::vector<ParameterSpan> spans);

  const std::vector<ParameterSpan>& spans() const { return spans_; }
  // Zeros of the span's size and dtype, which become part of state() under the name "<name>.<span>".
  Tensor add_state(const std::string& name, size_t span);

 private:
  void update_all(const StepNumbers& numbers);
  // One span of the update that steps() counts already.
  virtual void update(size_t span, const StepNumbers& numbers) = 0;

  std::vector<ParameterSpan> spans_;
  std::vector<std::pair<std::string, Tensor>> state_;
  int64_t steps_ = 0;
};

// Throws ValueError, naming the key, unless value is finite and not negative.
void require_not_negative(const char* key, double value);

}  // namespace heed::optim
