// One recorded operation of the autograd graph; internal to tape.cpp.
#pragma once

#include <string>
#include <vector>

#include "autograd/tape.hpp"

namespace heed {

class Node {
 public:
  Node(const char* name, std::vector<Tensor> inputs, Backward backward);
  ~Node();

  const char* name;
  std::string scope;  // set in anomaly mode only
  uint64_t sequence;  // order of creation: backward visits nodes in reverse order
  std::vector<Tensor> inputs;
  Backward backward;
  Work::Kind kind = Work::Kind::backward;  // what `backward` computes
  Tensor grad;                             // gradient of the result, accumulated so far
  bool freed = false;

  // Drops inputs and closure. It does not recurse into the nodes of the inputs: a long graph would overflow the stack.
  void free();
};

}  // namespace heed
