// All parameters of a model in a few flat buffers.
//
// Modules declare parameters by name, shape and initialisation; build() then allocates and initialises them. Group 0
// holds the parameters of two and more dimensions (with weight decay), group 1 the others (gains of norms, biases).
// Within a group the order is the reverse of declaration, so that during backward gradients become final from the front
// of the buffer on. The offset of each parameter is a multiple of 16 elements; the padding is zero. A tied weight is
// one entry that is used twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed::nn {

// Initialisation: N(0, std^2), or a constant if std is 0.
struct Init {
  double std = 0;
  double constant = 0;
};

class ParameterStore;

// Handle of a parameter in a module; usable as a Tensor after ParameterStore::build().
class Parameter {
 public:
  Parameter() = default;
  Parameter(const ParameterStore* store, size_t index) : store_(store), index_(index) {}
  explicit operator bool() const { return store_ != nullptr; }
  const Tensor& tensor() const;  // empty for an undeclared parameter (no bias)
  const Tensor& copy() const;    // bf16 copy; empty unless the dtype of the store is bf16

 private:
  const ParameterStore* store_ = nullptr;
  size_t index_ = 0;
};

// One span of parameters, on which the optimizer, the gradient norm and the all-reduce operate.
struct ParameterGroup {
  // Master weights and gradients, (elements) including padding. No weights after release_weights().
  Tensor weights, gradients;
  Tensor copies;  // bf16 copies of the master weights; empty unless the dtype is bf16
  // Whether the leaves are slices of the copies instead of the weights: in bf16, those of group 0. CUDA GEMMs read the
  // copies of the biases in group 1.
  bool leaves_are_copies = false;
  bool decay = false;
  int64_t tensors = 0, parameters = 0;  // without padding

  const Tensor& leaves() const { return leaves_are_copies ? copies : weights; }
};

class ParameterStore {
 public:
  static constexpr int64_t kAlignment = 16;  // elements

  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    int group = 0;
    int64_t offset = 0;  // in the flat buffers of the group
    Tensor values;       // slice of the group's master weights; empty after release_weights()
    // The leaf that operations use, a slice of the group's leaves(). Its gradient is a slice of the group's gradients.
    // After writing to it or to `values`, call update_copies().
    Tensor tensor;
    Tensor copy;  // slice of the group's bf16 copies; empty unless the dtype is bf16
  };

  // dtype: f32, f64 or bf16. With bf16, the master weights and the gradients are f32, and operations use bf16 copies of
  // the parameters of two and more dimensions, and CUDA GEMMs also use those of the biases.
  explicit ParameterStore(DType dtype, Device device = Device::cpu) : dtype_(dtype), device_(device) {}
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Declares a parameter. Throws GraphError if the name is declared twice, or after build().
  Parameter declare(const std::string& name, const Shape& shape, Init init);
  // Allocates and initialises all parameters. The random values depend only on seed and name, not on the order. Without
  // a seed all values are 0: for weights that are loaded from a checkpoint. The length of each span is rounded up to a
  // multiple of span_multiple elements, so that it can be divided into shards of equal size. Throws ValueError
  // unless span_multiple is a multiple of kAlignment above 0; GraphError if called twice.
  void build(std::optional<uint32_t> seed, int64_t span_multiple = kAlignment);

  // Casts the master weights to the bf16 copies. Call this after the weights have changed, such as by a checkpoint. An
  // optimizer writes the copies itself if its spans have them.
  void update_copies() const;
  // The same for a part of a group, starting at `offset`; bf16 only. `weights`: the master weights of that part,
  // which need not be stored here.
  void update_copies(int group, int64_t offset, const Tensor& weights) const;
  // Frees the master weights of a group, once they are stored elsewhere (sharded over the ranks). Throws GraphError
  // unless leaves_are_copies.
  void release_weights(int group);

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& entry(const std::string& name) const;  // throws GraphError
  // The leaves that operations use, in the order of entries(): in PyTorch, list(model.parameters()). An optimizer takes
  // them by optim::spans_of(); with bf16 it needs the master weights of groups() instead.
  std::vector<Tensor> leaves() const;
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  int64_t parameters() const;
  // Call this before the first backward() of a step. It makes the gradients of the leaves zero by Tensor::reset_grad():
  // a slice of the flat gradients is valid after the first contribution to it, or after grad() of its leaf.
  void zero_gradients() const;

 private:
  DType dtype_;
  Device device_;
  std::vector<Entry> entries_;
  std::vector<ParameterGroup> groups_;
};

}  // namespace heed::nn
