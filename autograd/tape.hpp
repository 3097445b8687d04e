// The autograd tape: records which operation made each tensor, and runs the backward pass.
//
// An operation computes its result into an Output and calls record(). backward() visits the recorded operations in
// reverse order of creation, passes each one the gradient of its result, and frees it. Only the tape decides whether a
// gradient is needed, written to a new tensor, or accumulated into an existing one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed {

struct SinkOptions {
  // A tensor of the input's shape and dtype that the kernel has read when it writes over it: element i before it writes
  // element i. The gradient takes its memory if the backward's own handle is the last one, and it is the first gradient
  // of an input that an operation made (not of a parameter). In anomaly mode nothing is reused.
  const Tensor* reuse = nullptr;
  // The kernel writes in accumulation_dtype() of the input, not in its dtype: the gradient of a parameter matrix.
  bool accumulation_dtype = false;
};

// The gradients of an operation's inputs, for use in its backward function. `input` is the position in the list that
// was passed to record().
class Gradients {
 public:
  virtual ~Gradients() = default;
  virtual bool needed(size_t input) const = 0;
  // Uninitialised memory for the whole gradient, which the kernel overwrites. Empty if the gradient is not needed.
  virtual TensorRef fresh(size_t input) = 0;
  // For kernels that can accumulate: the existing gradient (add = true) or a new one (add = false).
  virtual GradientSink sink(size_t input, const SinkOptions& options = {}) = 0;
  // The gradient equals this tensor (of the input's shape and dtype), as in the backward of an addition: an alias of
  // it, or a copy for a leaf.
  virtual void alias(size_t input, const Tensor& gradient) = 0;
};

// dy is the gradient of the operation's result. The function must not capture the result's own handle, because that is
// a reference cycle (Output::saved() is allowed).
using Backward = std::function<void(const Tensor& dy, Gradients& gradients)>;

// Turns the output into a Tensor. If gradients are enabled and an input requires one, it also attaches a node with the
// backward function. Outside anomaly mode the node keeps no intermediate input's elements alive: a backward function
// that needs them captures the Tensor.
Tensor record(const char* name, Output output, std::vector<Tensor> inputs, Backward backward);

// Computes the gradients of a scalar with respect to all leaves of its graph and *adds* them to the leaves' gradients.
// Frees the graph, also when an operation's backward throws: a second call on it throws GraphError. After such an error
// the leaves hold the gradients accumulated up to then; a gradient that existed before the call may include a partial
// contribution of the operation that threw.
void backward(const Tensor& loss);
// The same with a given gradient of the result (the cotangent), of the result's shape, dtype and device (ShapeError,
// DTypeError, DeviceError).
void backward(const Tensor& result, const Tensor& dresult);

// Fuses record() and backward(result) for an operation with a scalar result: forward_and_backward(dresult, gradients)
// computes the result and the gradients of the inputs, with dresult = 1. Backward then continues with the inputs.
// Returns the result, which is not in the graph. Throws what backward() throws; anomaly mode checks the result, too.
Tensor record_and_backward(const char* name, Output output, std::vector<Tensor> inputs, Backward forward_and_backward);

// Activation checkpointing: runs fn(inputs) without saving activations, and runs it again during backward. Values and
// random numbers are the same and memory use is lower. Gradients are the same too, bit for bit if an input is used only
// inside fn (otherwise the contributions to its gradient may be added in another order). fn may use leaves that are not
// among the inputs (parameters).
using Recomputed = std::function<Tensor(const std::vector<Tensor>& inputs)>;
Tensor recompute(const Recomputed& fn, const std::vector<Tensor>& inputs);

// added() is called on the thread that runs backward, after each operation that wrote or accumulated the gradient of a
// leaf: once for each input of the operation that is this leaf. The gradient of a leaf is final when all its uses have
// been reported.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  virtual void added(const Tensor& leaf) = 0;
};
void set_gradient_observer(GradientObserver* observer);  // thread-local; nullptr: none

// Turns the recording of operations on this thread on or off during its lifetime.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool on);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};
struct NoGradGuard : GradModeGuard {
  NoGradGuard() : GradModeGuard(false) {}
};
bool grad_enabled();

// Number of recorded operations that are still alive: 0 after a training step.
int64_t live_nodes();

// Anomaly mode: the first operation whose result or gradient contains a NaN or Inf throws DivergedError with its name,
// its NameScope and statistics of its inputs. Slow: one additional pass over every tensor.
void set_detect_anomaly(bool on);
bool detect_anomaly();

// Names the part of a model for anomaly reports: "blocks.2.attention".
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  size_t length_before_;
};

// One unit of work that has just finished. An operation is reported with its result and inputs, other work with a name
// only.
struct Work {
  enum class Kind { forward, backward, both, other };  // both: record_and_backward()
  Kind kind = Kind::other;
  const char* name = "";
  const Tensor* result = nullptr;  // for backward and both: its gradient
  const std::vector<Tensor>* inputs = nullptr;
};

// done() is called on the thread that ran the work, as soon as it has finished: `heed bench` uses it to measure the
// parts of a training step. Without an observer (nullptr) an operation only tests one pointer.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  virtual void done(const Work& work) = 0;
  // The events that done() records if an observed training step is captured; the CUDA graph keeps them alive. done() is
  // then called during capture, when the work has not run yet, and not during replays. nullptr: an observed step must
  // be neither captured nor replayed.
  virtual std::shared_ptr<const void> captured_events() const { return nullptr; }
};
void set_work_observer(WorkObserver* observer);  // thread-local
WorkObserver* work_observer();                   // of this thread, or nullptr
// Reports work that is not an operation, such as an optimizer step.
void work_done(const char* name);

}  // namespace heed
