// The data of a Tensor handle; internal to tensor.cpp and tape.cpp.
#pragma once

#include "autograd/tensor.hpp"

namespace heed {

struct Tensor::Impl {
  std::shared_ptr<Buffer> storage;  // null: only the graph position is kept, see Tape::linked()
  Device device = Device::cpu;
  int64_t offset_bytes = 0;
  Shape shape;
  DType dtype = DType::f32;
  bool is_leaf_with_grad = false;
  std::shared_ptr<Node> node;  // the operation that made this tensor, if recorded
  Tensor grad;                 // of a leaf
  // After reset_grad(): the gradient is zero, but its memory still holds the old one.
  bool grad_is_stale = false;

  void zero_stale_grad() {
    if (grad_is_stale) fill_zero(grad.ref());
    grad_is_stale = false;
  }
};

}  // namespace heed
