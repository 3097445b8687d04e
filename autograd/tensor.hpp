// Tensor: a shared handle of a dense row-major array, and its place in the graph.
//
// Copies of a handle are the same tensor. There are no differentiable views: an operation always makes a new tensor.
#pragma once

#include <memory>
#include <vector>

#include "autograd/core/buffer.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed {

class Node;

class Tensor {
 public:
  Tensor() = default;  // no tensor; test with operator bool
  explicit operator bool() const { return impl_ != nullptr; }

  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  int64_t numel() const { return shape().numel(); }
  int64_t rank() const { return shape().rank(); }

  TensorRef ref() const;
  operator ConstTensorRef() const { return ref(); }
  // The elements of a tensor on the CPU; throws DTypeError where T is not the dtype, DeviceError on another device.
  template <class T>
  T* data() const {
    return ref().as<T>();
  }
  // The only element of a floating tensor of one element. On CUDA it waits for the device, as values() does.
  double item() const;
  // A copy of the elements as double, for tests and reports.
  std::vector<double> values() const;

  // A leaf that wants a gradient, or the output of an operation on such a leaf.
  bool requires_grad() const;
  // Marks a leaf; throws GraphError on the output of an operation.
  const Tensor& set_requires_grad(bool on) const;
  // The gradient of a leaf, no tensor where none was computed. For bf16 leaves of the dtype that set_grad() gave it or,
  // without, of the first gradient that arrived.
  Tensor grad() const;
  // A tensor of the same shape that backward() adds into (parameters: a slice of a flat buffer), or no tensor. Of the
  // same dtype, or f32 for a bf16 tensor: a sum over many rows and micro-batches needs the digits.
  void set_grad(Tensor grad) const;

  // The same elements without a place in the graph.
  Tensor detach() const;
  // A new tensor with the same elements, no graph.
  Tensor clone() const;
  // A tensor with the same elements on another device, no graph; on its own device itself, without a graph.
  Tensor to(Device device, MemoryCategory category = MemoryCategory::activations) const;
  // `shape` elements of the same memory from element `offset` on, no graph. Throws ShapeError where they do not fit.
  Tensor slice(int64_t offset, const Shape& shape) const;

  // Not those of an input that a recorded operation knows by its place in the graph only.
  bool has_elements() const;
  // Whether nobody else holds this tensor or its memory.
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
// Values converted to dtype; throws ShapeError where their number is not that of the shape.
Tensor from_values(const Shape& shape, DType dtype, const std::vector<double>& values, Device device = Device::cpu);
Tensor from_tokens(const Shape& shape, const std::vector<int32_t>& tokens, Device device = Device::cpu);
void fill_zero(const TensorRef& tensor);
// The elements of `from` into `to`, of the same number and dtype; each on any device.
void copy_elements_to(const TensorRef& to, const ConstTensorRef& from);

// A fresh result that is not yet a Tensor: record() or no_gradient() must make it one, so an operation cannot forget
// its backward.
class Output {
 public:
  Output(const Shape& shape, DType dtype, Device device) : tensor_(empty(shape, dtype, device)) {}
  TensorRef ref() const { return tensor_.ref(); }
  // The result's elements for the operation's own backward: shares memory, not the graph.
  Tensor saved() const { return tensor_.detach(); }

 private:
  friend class Tape;
  friend Tensor no_gradient(Output output);
  Tensor tensor_;
};

// The result of an operation that has no derivative (argmax, a cast to tokens, …).
inline Tensor no_gradient(Output output) { return std::move(output.tensor_); }

}  // namespace heed
