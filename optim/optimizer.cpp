#include "optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/core/device.hpp"
#include "autograd/ops/copy.hpp"
#include "optim/weight_average.hpp"

namespace heed::optim {
namespace {

void require_flat(const ParameterSpan& span, size_t index, DType dtype) {
  require<ShapeError>(span.weights && span.gradients, "optimizer: span {} has no {}", index,
                      span.weights ? "gradients" : "weights");
  require<ShapeError>(span.weights.rank() == 1 && span.gradients.shape() == span.weights.shape(),
                      "optimizer: span {} has weights {} and gradients {}, both must be flat and of one size", index,
                      span.weights.shape(), span.gradients.shape());
  require<DTypeError>(is_accumulation_dtype(dtype) && span.weights.dtype() == dtype && span.gradients.dtype() == dtype,
                      "optimizer: span {} has {} weights and {} gradients, all must be {}", index, span.weights.dtype(),
                      span.gradients.dtype(), is_accumulation_dtype(dtype) ? name(dtype) : "f32 or f64");
  require_one_device("optimizer", {{"weights", span.weights}, {"gradients", span.gradients}, {"copies", span.copies}});
  if (!span.copies) return;
  require<ShapeError>(span.copies.shape() == span.weights.shape(),
                      "optimizer: the copies of span {} have shape {}, it must be {} as for the weights", index,
                      span.copies.shape(), span.weights.shape());
  require<DTypeError>(dtype == DType::f32 && span.copies.dtype() == DType::bf16,
                      "optimizer: span {} has {} copies of {} weights, it must have bf16 copies of f32 weights", index,
                      span.copies.dtype(), dtype);
}

bool share_memory(const Tensor& a, const Tensor& b) {
  const auto begin = [](const Tensor& t) { return static_cast<const char*>(t.ref().data); };
  const auto end = [&](const Tensor& t) { return begin(t) + t.numel() * size_bytes(t.dtype()); };
  return std::less<>()(begin(a), end(b)) && std::less<>()(begin(b), end(a));
}

// Elements in two spans would be updated twice.
void require_apart(const std::vector<ParameterSpan>& spans) {
  struct Named {
    Tensor tensor;
    const char* name;
    size_t span;
  };
  std::vector<Named> all;
  for (size_t i = 0; i < spans.size(); ++i) {
    for (const Named& one : {Named{spans[i].weights, "weights", i}, Named{spans[i].gradients, "gradients", i},
                             Named{spans[i].copies, "copies", i}}) {
      if (!one.tensor) continue;
      for (const Named& other : all) {
        require<ValueError>(!share_memory(one.tensor, other.tensor),
                            "optimizer: the {} of span {} and the {} of span {} overlap", other.name, other.span,
                            one.name, one.span);
      }
      all.push_back(one);
    }
  }
}

}  // namespace

std::vector<ParameterSpan> spans_of(const std::vector<Tensor>& parameters) {
  std::vector<ParameterSpan> spans;
  for (const Tensor& parameter : parameters) {
    require<GraphError>(parameter.requires_grad(),
                        "spans_of: parameter {} requires no gradient: call set_requires_grad(true) on it first",
                        spans.size());
    if (!parameter.grad()) {  // set_grad() throws unless it is a leaf
      parameter.set_grad(zeros(parameter.shape(), parameter.dtype(), parameter.device(), MemoryCategory::gradients));
    }
    const Shape flat{parameter.numel()};
    spans.push_back({parameter.slice(0, flat), parameter.grad().slice(0, flat), parameter.rank() >= 2});
  }
  return spans;
}

Optimizer::Optimizer(std::vector<ParameterSpan> spans) : spans_(std::move(spans)) {
  require<ValueError>(!spans_.empty(), "optimizer: there are no parameters to update");
  for (size_t i = 0; i < spans_.size(); ++i) {
    require_flat(spans_[i], i, spans_[0].weights ? spans_[0].weights.dtype() : DType::f32);
    require_not_negative("optimizer: learning_rate_scale", spans_[i].learning_rate_scale);
    require_not_negative("optimizer: weight_decay_scale", spans_[i].weight_decay_scale);
  }
  require_apart(spans_);
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  require_not_negative("learning_rate", learning_rate);
  require<ValueError>(std::isfinite(gradient_scale) && gradient_scale > 0,
                      "optimizer: the gradient scale is {}, it must be finite and above 0", gradient_scale);
  update_all({.learning_rate = learning_rate,
              .gradient_scale = gradient_scale,
              .optimizer_step = steps_ + 1,
              .bias_correction = bias_correction(steps_ + 1)});
}

void Optimizer::step(const StepState* state) {
  update_all({.learning_rate = DeviceScalar<double>::at(&state->learning_rate),
              .gradient_scale = DeviceScalar<double>::at(&state->gradient_scale),
              .optimizer_step = DeviceScalar<int64_t>::at(&state->optimizer_step),
              .is_valid = DeviceScalar<int64_t>::at(&state->is_valid),
              .bias_correction = DeviceScalar<BiasCorrection>::at(&state->bias_correction)});
}

void Optimizer::zero_grad() const {
  for (const ParameterSpan& span : spans_) fill_zero(span.gradients.ref());
}

void Optimizer::update_all(const StepScalars& scalars) {
  ++steps_;
  for (size_t span = 0; span < spans_.size(); ++span) {
    StepScalars of_span = scalars;
    of_span.learning_rate_scale = spans_[span].learning_rate_scale;
    update(span, of_span);
  }
  update_matrices(scalars);
  update_averages(scalars);
}

void Optimizer::average_weights(double decay) {
  require<ValueError>(decay > 0 && decay < 1,
                      "optimizer: the decay of the average is {}, it must be above 0 and below 1", decay);
  require<ValueError>(!averages_weights(), "optimizer: average_weights() was called twice");
  average_decay_ = decay;
  for (size_t span = 0; span < spans_.size(); ++span) {
    averages_.push_back(add_state(kAverageName, span));
    copy_elements_to(averages_[span].ref(), spans_[span].weights);
  }
  const Tensor& like = spans_[0].weights;
  swap_buffer_ = empty({kSwapped}, like.dtype(), like.device(), MemoryCategory::workspace);
}

void Optimizer::update_averages(const StepScalars& scalars) {
  for (size_t span = 0; span < averages_.size(); ++span) {
    const Tensor& average = averages_[span];
    HEED_DISPATCH(
        average.device(), weight_average_step,
        {.average = average.ref(), .weights = spans_[span].weights, .scalars = scalars, .decay = average_decay_});
  }
}

// Piece by piece, so that it needs little memory.
void Optimizer::swap_weights_with_average() const {
  for (size_t span = 0; span < averages_.size(); ++span) {
    const int64_t size = averages_[span].numel();
    for (int64_t first = 0; first < size; first += kSwapped) {
      const Shape shape{std::min(kSwapped, size - first)};
      const Tensor kept = swap_buffer_.slice(0, shape), average = averages_[span].slice(first, shape);
      const Tensor weights = spans_[span].weights.slice(first, shape);
      copy_elements_to(kept.ref(), weights);
      copy_elements_to(weights.ref(), average);
      copy_elements_to(average.ref(), kept);
      const Tensor& copies = spans_[span].copies;
      if (copies) HEED_DISPATCH(weights.device(), cast_elements, copies.slice(first, shape).ref(), weights);
    }
  }
}

std::vector<std::string> Optimizer::state_names(const Tensor& gradient) const {
  std::vector<std::string> names = moment_names(gradient);
  if (averages_weights()) names.emplace_back(kAverageName);
  return names;
}

std::vector<std::string> Optimizer::moment_names(const Tensor&) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_) {
    const std::string moment = name.substr(0, name.rfind('.'));
    if (moment == kAverageName) continue;
    if (std::find(names.begin(), names.end(), moment) == names.end()) names.push_back(moment);
  }
  return names;
}

void Optimizer::restore_steps(int64_t steps) {
  require<ValueError>(steps >= 0, "restore_steps: {} steps, it must not be negative", steps);
  steps_ = steps;
}

Tensor Optimizer::add_state(const std::string& name, size_t span) {
  const Tensor& weights = spans_[span].weights;
  Tensor tensor = zeros(weights.shape(), weights.dtype(), weights.device(), MemoryCategory::optimizer);
  state_.emplace_back(fmt::format("{}.{}", name, span), tensor);
  return tensor;
}

void require_not_negative(const char* argument, double value) {
  require<ValueError>(std::isfinite(value) && value >= 0, "{} is {}, it must be finite and not negative", argument,
                      value);
}

}  // namespace heed::optim
