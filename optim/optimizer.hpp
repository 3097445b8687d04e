// Optimizers over a few long spans of parameters.
//
// The parameters of a model are stored in flat buffers. A span is a contiguous range of weights with its gradients, and
// weight decay and factors on it and on the learning rate apply to all of it; an optimizer has no notion of layers. It
// updates the weights in place; only zero_grad() changes the gradients (and Muon, where it gathers shards). A training
// step with custom parameters:
//   Sgd optimizer(spans_of({weight, bias}), {.momentum = 0.9});
//   optimizer.zero_grad(); backward(loss); optimizer.step(learning_rate);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tensor.hpp"
#include "optim/step_state.hpp"

namespace heed::optim {

// The name of the averaged weights in Optimizer::state().
inline constexpr const char* kAverageName = "ema";

struct ParameterSpan {
  Tensor weights, gradients;  // (N) each; one dtype for all spans, f32 or f64
  bool decay = false;         // whether weight decay applies
  double learning_rate_scale = 1;
  double weight_decay_scale = 1;
  // Optional, (N) bf16, for f32 weights: the rounded weights. The optimizer updates them with the weights.
  Tensor copies = {};

  // The weight decay of the span, if that of the optimizer is weight_decay.
  double decay_of(double weight_decay) const { return decay ? weight_decay * weight_decay_scale : 0.0; }
};

// Separate tensors as parameters, one span each. Gives a parameter without a gradient a gradient of zeros, for
// backward() to accumulate into. As in nn::ParameterStore, weight decay applies to those of two and more dimensions.
// Afterwards clear gradients with zero_grad(), not with set_grad(), which would give backward() another tensor than the
// optimizer reads. Throws GraphError for a tensor that is not a leaf that requires a gradient.
std::vector<ParameterSpan> spans_of(const std::vector<Tensor>& parameters);

// The scalars of an optimizer step, for its kernels.
struct StepScalars {
  DeviceScalar<double> learning_rate = 0, gradient_scale = 1;
  DeviceScalar<int64_t> optimizer_step = 1;  // 1 in the first
  DeviceScalar<int64_t> is_valid = 1;        // 0: weights and state do not change
  DeviceScalar<BiasCorrection> bias_correction = BiasCorrection();
  double learning_rate_scale = 1;  // of the span

  // The learning rate of the span. Call this where the kernel runs.
  HEED_HOST_DEVICE double rate() const { return learning_rate.get() * learning_rate_scale; }
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One optimizer step on all spans. Each gradient is multiplied by gradient_scale when it is read, so that clipping
  // (see grad_clip.hpp) needs no separate pass. Throws ValueError unless learning_rate is finite and not negative and
  // gradient_scale finite and above 0; nothing has changed then.
  void step(double learning_rate, double gradient_scale = 1);
  // The same with the scalars in the memory of the weights' device, where the kernels read learning_rate,
  // gradient_scale, is_valid (0: weights and state do not change), optimizer_step, which must equal steps() after the
  // call, and bias_correction, which must be that of this optimizer and step.
  void step(const StepState* state);
  // The bias correction of AdamW, computed on the host in f64, once per step. The other update rules do not read it.
  virtual BiasCorrection bias_correction(int64_t /*step*/) const { return {}; }

  // Sets the gradients of all spans to 0, before the first backward() of a step.
  void zero_grad() const;

  // From now on keeps an exponential moving average of the weights, which starts as a copy of them and follows them
  // after each step (weight_average.hpp). State: ema of each span. Call this before the first step. Throws ValueError
  // unless decay is above 0 and below 1, or if it was called before.
  void average_weights(double decay);
  bool averages_weights() const { return !averages_.empty(); }
  // Exchanges the weights of all spans with their averages, bit for bit, for an evaluation of the average; call it
  // again before the next step. Allocates no memory.
  void swap_weights_with_average() const;

  // The number of optimizer steps so far, one count for all spans.
  int64_t steps() const { return steps_; }
  // Sets the step count, after the tensors of state() have been restored. Throws ValueError for a negative count.
  void restore_steps(int64_t steps);
  // The tensors that the optimizer keeps between steps, by name: "m.0" is the m of span 0. They are not copies.
  const std::vector<std::pair<std::string, Tensor>>& state() const { return state_; }
  // The names in state(), without the span, of a parameter with this gradient, which lies in the gradients of the spans
  // or, if they are the shards of a rank, between them.
  std::vector<std::string> state_names(const Tensor& gradient) const;

 protected:
  // Throws ValueError without any span or if spans share memory, ShapeError if a span is not flat or lacks weights or
  // gradients, DTypeError for mixed dtypes or others than f32 and f64, and unless copies are bf16 and their
  // weights f32; DeviceError if gradients or copies are on another device than their weights.
  explicit Optimizer(std::vector<ParameterSpan> spans);

  const std::vector<ParameterSpan>& spans() const { return spans_; }
  // Adds a tensor of zeros, of the size and dtype of the span, to state() under the name "<name>.<span>".
  Tensor add_state(const std::string& name, size_t span);

 private:
  void update_all(const StepScalars& scalars);
  virtual void update(size_t span, const StepScalars& scalars) = 0;
  // Called after update() of all spans.
  virtual void update_matrices(const StepScalars&) {}
  // state_names() without the average of the weights.
  virtual std::vector<std::string> moment_names(const Tensor& gradient) const;
  void update_averages(const StepScalars& scalars);

  std::vector<ParameterSpan> spans_;
  std::vector<std::pair<std::string, Tensor>> state_;
  std::vector<Tensor> averages_;  // one per span; empty without an average
  double average_decay_ = 0;
  static constexpr int64_t kSwapped = int64_t{1} << 20;  // elements at a time
  Tensor swap_buffer_;
  int64_t steps_ = 0;
};

// Throws ValueError, naming the argument, unless value is finite and not negative.
void require_not_negative(const char* argument, double value);

}  // namespace heed::optim
