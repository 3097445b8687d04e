// The tape: which operation made a tensor, and the walk back that fills the gradients.
//
// An operation computes its result into an Output and calls record(). backward() walks the recorded operations in
// reverse order of creation, hands each one the gradient of its result, and frees it. Only this file decides whether a
// gradient is needed, written fresh, or added to one that is there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed {

// The gradients of an operation's inputs, as its backward sees them; inputs are counted as given to record().
class Gradients {
 public:
  virtual ~Gradients() = default;
  virtual bool needed(size_t input) const = 0;
  // Memory for the whole gradient, which the kernel overwrites. Empty where the gradient is not needed.
  virtual TensorRef fresh(size_t input) = 0;
  // For kernels that can add: the gradient that is there already (add = true), or a fresh one.
  virtual GradientSink sink(size_t input) = 0;
  // The same for a gradient that the kernel writes in compute_dtype() of the input: that of a matrix of parameters.
  virtual GradientSink parameter_sink(size_t input) = 0;
  // The same for kernels that may write the gradient over `saved`, of the input's shape and dtype: element i is read
  // before it is written. Where nobody else holds that tensor, the gradient takes its memory.
  virtual GradientSink over(size_t input, const Tensor& saved) = 0;
  // The gradient is this very tensor (of the input's shape and dtype), as with the gradient of an addition.
  virtual void pass(size_t input, const Tensor& gradient) = 0;
};

// dy is the gradient of the operation's result. Must not capture the result's own handle (Output::saved() is fine).
using Backward = std::function<void(const Tensor& dy, Gradients& gradients)>;

// Makes the output a Tensor and, where an input wants a gradient, remembers how to compute it. Keeps the elements of no
// input: a backward that needs them captures the Tensor.
Tensor record(const char* name, Output output, std::vector<Tensor> inputs, Backward backward);

// Gradients of a scalar with respect to all leaves below it; they are *added* to what the leaves hold. Frees the
// graph, also when an operation's backward throws: a second call on it throws GraphError. After such an error the
// leaves hold what had been added up to then; into a gradient that was there before, the operation that threw may have
// added a part.
void backward(const Tensor& loss);
// The same with a given gradient of the result ("cotangent"), of its shape.
void backward(const Tensor& result, const Tensor& dresult);

// Runs fn(inputs) without keeping what its operations would keep, and again during backward. Same values, same random
// numbers, less memory, and the same gradients, bit for bit where an input has no other use outside fn (elsewhere the
// parts of its gradient may be added in another order). fn may use leaves that are not among the inputs (parameters).
using Recomputed = std::function<Tensor(const std::vector<Tensor>& inputs)>;
Tensor recompute(const Recomputed& fn, const std::vector<Tensor>& inputs);

// Is told, on the thread that runs backward, of each leaf whose gradient an operation has just written or added to:
// once for each input of each operation that the leaf is. Gradients of a leaf are final when all its uses were told.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  virtual void added(const Tensor& leaf) = 0;
};
void set_gradient_observer(GradientObserver* observer);  // of this thread; nullptr: none

// While it lives (on this thread), operations are recorded or not.
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

// Recorded operations that are still alive: 0 after an update.
int64_t live_nodes();

// Anomaly mode: the first operation whose result or gradient holds a NaN or Inf throws DivergedError with its name, its
// place (NameScope) and statistics of its inputs. Slow: one more pass over every tensor.
void set_detect_anomaly(bool on);
bool detect_anomaly();

// Names the part of a model in anomaly reports: "blocks.2.attention".
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  size_t length_before_;
};

// One piece of work that was just done. An operation comes with the shapes it had; other work has a name only.
struct Work {
  enum class Kind { forward, backward, other };
  Kind kind = Kind::other;
  const char* name = "";
  const Tensor* result = nullptr;  // in backward its gradient
  const std::vector<Tensor>* inputs = nullptr;
};

// Is told of each piece of work as soon as it is done, on the thread that did it: `heed bench` takes an update apart by
// it. Without an observer (nullptr) an operation pays for one look at a pointer.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  virtual void done(const Work& work) = 0;
};
void set_work_observer(WorkObserver* observer);  // of this thread
bool has_work_observer();
// For work that is no operation, such as an optimizer's.
void work_done(const char* name);

}  // namespace heed
