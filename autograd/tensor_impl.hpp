// The inside of a Tensor handle; for tensor.cpp and tape.cpp only.
#pragma once

#include "autograd/tensor.hpp"

namespace heed {

struct Tensor::Impl {
  std::shared_ptr<Buffer> storage;  // none: only the place in the graph is left, see Tape::linked()
  Device device = Device::cpu;
  int64_t offset_bytes = 0;
  Shape shape;
  DType dtype = DType::f32;
  bool is_leaf_with_grad = false;
  std::shared_ptr<Node> node;  // the operation that made this tensor, if it is recorded
  Tensor grad;                 // of a leaf
};

}  // namespace heed
