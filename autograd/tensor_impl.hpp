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
};

}  // namespace heed
