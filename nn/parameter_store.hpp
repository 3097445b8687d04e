// All parameters of a model in a few flat buffers.
//
// Modules declare parameters by name, shape and initial values; build() then lays them out and draws them. Group 0
// holds those of two and more dimensions (weight decay applies), group 1 the rest (norm gains, biases). Within a group
// the order is the reverse of declaration, so gradients become final from the front while backward runs. Each
// parameter starts at a multiple of 16 elements; the gaps hold zeros. A tied weight is one entry, used twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed::nn {

// Initial values: normal with mean 0, or a constant where std is 0.
struct Init {
  double std = 0;
  double constant = 0;
};

class ParameterStore;

// A parameter as a module holds it; usable as a Tensor once the store is built.
class Parameter {
 public:
  Parameter() = default;
  Parameter(const ParameterStore* store, size_t index) : store_(store), index_(index) {}
  explicit operator bool() const { return store_ != nullptr; }
  const Tensor& tensor() const;  // an empty tensor for a parameter that was never declared (no bias)

 private:
  const ParameterStore* store_ = nullptr;
  size_t index_ = 0;
};

// One flat span: what the optimizer, the norm and the all-reduce work on.
struct ParameterGroup {
  // (elements) with the gaps. No weights where release_weights() was called.
  Tensor weights, gradients;
  Tensor copies;  // bf16 only: the weights of matrices rounded to bf16, else no tensor
  bool decay = false;
  int64_t tensors = 0, parameters = 0;  // without the gaps
};

class ParameterStore {
 public:
  static constexpr int64_t kAlignment = 16;  // elements

  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    int group = 0;
    int64_t offset = 0;  // in the group's span
    Tensor values;       // a slice of the group's weights, if it has them
    // What operations take: a leaf with the elements of values, in bf16 of the copies; its gradient is a slice of the
    // group's gradients.
    Tensor tensor;
  };

  // f32, f64 or bf16. With bf16 weights and gradients are f32, and parameters of two and more dimensions are used by
  // way of bf16 copies.
  explicit ParameterStore(DType dtype, Device device = Device::cpu) : dtype_(dtype), device_(device) {}
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Before build(). Throws GraphError for a name declared twice.
  Parameter declare(const std::string& name, const Shape& shape, Init init);
  // Allocates and draws all parameters; the values depend on seed and name only, not on the order. Without a seed all
  // are 0: for weights that are loaded from a checkpoint. Each group's span is a multiple of span_multiple elements
  // long, so that it can be cut into equal parts; that is a multiple of kAlignment.
  void build(std::optional<uint32_t> seed, int64_t span_multiple = kAlignment);

  // Once after weights were changed from outside (by an optimizer, a checkpoint): renews the bf16 copies.
  void update_copies() const;
  // The same for a part of a group that has copies: those from `offset` on, of exact weights that may be elsewhere.
  void update_copies(int group, int64_t offset, const Tensor& weights) const;
  // Frees the exact weights of a group that has copies, once somebody else keeps them.
  void release_weights(int group);

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& entry(const std::string& name) const;  // throws GraphError
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  int64_t parameters() const;
  void zero_gradients() const;

 private:
  DType dtype_;
  Device device_;
  std::vector<Entry> entries_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace heed::nn
