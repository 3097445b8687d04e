// Anomaly detection: finds the operation that produced the first NaN or Inf.
#pragma once

#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed {

// Throws DivergedError "anomaly: the <what> of operation '<operation>' in <scope> is the first with NaN or Inf: …;
// input 0 …; …" unless all elements of a floating-point tensor are finite.
void require_finite(const char* operation, const std::string& scope, const char* what, const Tensor& tensor,
                    const std::vector<Tensor>& inputs);
// "(2, 3) f32: min -1.5 max 2 mean 0.1, 3 NaN, 0 Inf"; min, max and mean are those of the finite elements.
std::string statistics(const Tensor& tensor);
// The path of the NameScopes that are open on this thread: "blocks.2.attention".
const std::string& current_scope();
// While it lives, no NameScope is open: backward() names what it recomputes as forward did, wherever it is called.
class OutsideNameScopes {
 public:
  OutsideNameScopes();
  ~OutsideNameScopes();
  OutsideNameScopes(const OutsideNameScopes&) = delete;
  OutsideNameScopes& operator=(const OutsideNameScopes&) = delete;

 private:
  std::string path_;
};

}  // namespace heed
