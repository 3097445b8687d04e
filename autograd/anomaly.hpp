// Finding where a NaN or Inf was made.
#pragma once

#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed {

// Throws DivergedError "anomaly: <what> of <operation> in <scope> holds …; inputs: …" unless all elements are finite.
void require_finite(const char* operation, const std::string& scope, const char* what, const Tensor& tensor,
                    const std::vector<Tensor>& inputs);
// "(2, 3) f32: min -1.5 max 2 mean 0.1, 3 NaN, 0 Inf"
std::string statistics(const Tensor& tensor);
// The parts of the model that NameScope names now, "blocks.2.attention".
const std::string& current_scope();

}  // namespace heed
