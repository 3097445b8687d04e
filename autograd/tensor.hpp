// Tensor: a shared handle of a dense row-major array, and its position in the autograd graph.
//
// Copies of a handle refer to the same tensor. There are no differentiable views: an operation always makes a new
// tensor.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "autograd/core/buffer.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed {

class Node;

class Tensor {
 public:
  Tensor() = default;  // empty handle; test with operator bool
  explicit operator bool() const { return impl_ != nullptr; }

  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  int64_t numel() const { return shape().numel(); }
  int64_t rank() const { return shape().rank(); }

  TensorRef ref() const;
  operator ConstTensorRef() const { return ref(); }
  // The elements of a CPU tensor. Throws DTypeError if T is not the dtype, DeviceError on another device.
  template <class T>
  T* data() const {
    return ref().as<T>();
  }
  // The value of a floating-point tensor with one element; throws ShapeError otherwise. On CUDA it waits for the
  // device, as values() does.
  double item() const;
  // A copy of the elements as double, for tests and reports.
  std::vector<double> values() const;

  // True for a leaf that requires a gradient and for the result of a recorded operation.
  bool requires_grad() const;
  // Marks a leaf. Throws GraphError for the output of an operation, DTypeError for i32.
  const Tensor& set_requires_grad(bool on) const;
  // The gradient of a leaf; an empty handle if none was computed. That of a bf16 leaf is f32 only if set_grad() gave it
  // an f32 tensor or the first contribution is f32, as that of linear() to its weight; otherwise it is bf16.
  Tensor grad() const;
  // Sets the tensor of the same shape that backward() accumulates into (for parameters a slice of a flat buffer), or
  // none. It has the same dtype, or f32 for a bf16 tensor: a sum over many rows and micro-batches needs the precision.
  // Throws GraphError for the output of an operation, ShapeError, DTypeError, DeviceError.
  void set_grad(Tensor grad) const;
  // Makes the gradient of a leaf zero, without a pass over its memory: the first contribution overwrites it. If none
  // has come, the next grad() zeroes it. Until then, other handles of that memory, such as a flat buffer, see the old
  // gradient. Does nothing if the leaf has no gradient.
  void reset_grad() const;

  // The same elements (shared memory), not in the graph.
  Tensor detach() const;
  // A copy of the elements in new memory, not in the graph.
  Tensor clone() const;
  // A copy on another device, not in the graph. On the same device it returns detach(), without a copy.
  Tensor to(Device device, MemoryCategory category = MemoryCategory::activations) const;
  // A view of the same memory from element `offset` on, not in the graph. Throws ShapeError if the view does not fit.
  Tensor slice(int64_t offset, const Shape& shape) const;

  // False for a node's input of which only the graph position was kept, and for an empty handle.
  bool has_elements() const;
  // True if no other handle holds this tensor or its memory.
  bool unique() const;

 private:
  friend class Node;
  friend class Tape;
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  friend Tensor empty(const Shape&, DType, Device, MemoryCategory);

  std::shared_ptr<Impl> impl_;
};

// Uninitialised; throws MemoryError.
Tensor empty(const Shape& shape, DType dtype, Device device = Device::cpu,
             MemoryCategory category = MemoryCategory::activations);
Tensor zeros(const Shape& shape, DType dtype, Device device = Device::cpu,
             MemoryCategory category = MemoryCategory::activations);
Tensor full(const Shape& shape, DType dtype, double value, Device device = Device::cpu);
// Converts the values to dtype. Throws ShapeError if their number is not shape.numel().
Tensor from_values(const Shape& shape, DType dtype, const std::vector<double>& values, Device device = Device::cpu);
Tensor from_tokens(const Shape& shape, const std::vector<int32_t>& tokens, Device device = Device::cpu);
void fill_zero(const TensorRef& tensor);

// An input of an operation, for error messages.
struct NamedTensor {
  const char* name;
  const Tensor& tensor;
};
// Every operation of several tensors calls it before its kernel, which may not check. Throws DeviceError unless all
// inputs are on the device of the first one; an empty handle is an input that was not given.
void require_one_device(const char* operation, std::initializer_list<NamedTensor> inputs);

// Copies the elements of `from` to `to`, each on any device. Throws ShapeError or DTypeError unless number of elements
// and dtype are equal.
void copy_elements_to(const TensorRef& to, const ConstTensorRef& from);

// A new result that is not a Tensor yet: only record() or no_gradient() turns it into one, so an operation cannot
// forget its backward.
class Output {
 public:
  Output(const Shape& shape, DType dtype, Device device) : tensor_(empty(shape, dtype, device)) {}
  TensorRef ref() const { return tensor_.ref(); }
  // The result's elements for the operation's own backward: shares memory, is not in the graph.
  Tensor saved() const { return tensor_.detach(); }

 private:
  friend class Tape;
  friend Tensor no_gradient(Output output);
  Tensor tensor_;
};

// For the result of an operation without a derivative (argmax, a cast to tokens, …).
inline Tensor no_gradient(Output output) { return std::move(output.tensor_); }

}  // namespace heed
