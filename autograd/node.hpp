// One recorded operation; for tape.cpp and anomaly.cpp only.
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
  std::string scope;  // filled in anomaly mode only
  uint64_t sequence;  // order of creation: backward goes through it in reverse
  std::vector<Tensor> inputs;
  Backward backward;
  Tensor grad;  // gradient of the result, as far as it has been summed up
  bool freed = false;

  // Drops inputs and closure without recursing into the nodes below (a long graph would overflow the stack).
  void free();
};

}  // namespace heed
