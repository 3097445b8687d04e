// Gradient check: backward() against central differences in f64.
//
// fn's result y is contracted with random weights w, L = sum of w * y (a plain sum would hide errors that cancel).
// dL/dx from backward() is compared with the five-point stencil
//   (L(x-2h) - 8 L(x-h) + 8 L(x+h) - L(x+2h)) / 12h,  h = 1e-3 by default: error O(h^4).
// The error of an element with analytic derivative a and numeric derivative n is
//   |a - n| / max(|a|, |n|, 1e-4 max|g|, r / tolerance)
// with g the gradient of the tensor and r a bound on the rounding error of L in n. The element passes if its error is
// at most the tolerance, 1e-6 by default.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.hpp"

namespace heed {

struct GradcheckOptions {
  double step = 1e-3;
  double tolerance = 1e-6;
  int64_t max_elements = 256;  // per tensor; larger tensors are sampled
  uint32_t seed = 1;
};

struct GradcheckTensor {
  std::string name;
  Tensor tensor;  // f64; perturbed in place and restored
};

struct GradcheckResult {
  bool passed = true;
  int64_t checked = 0;
  // The element with the largest error.
  double error = 0;
  std::string tensor;
  int64_t element = 0;
  double analytic = 0, numeric = 0;

  std::string text() const;  // "weight[3]: analytic 1.01 numeric 1 error 0.0099"
};

// fn uses the tensors (as arguments of operations or as leaves it holds) and must return the same values at each call:
// dropout masks are a function of their RandomStream. A tensor that fn does not use has gradient 0. Throws DTypeError
// for tensors that are not f64: in f32, rounding swamps the difference quotient.
GradcheckResult gradcheck(const std::function<Tensor()>& fn, const std::vector<GradcheckTensor>& tensors,
                          const GradcheckOptions& options = {});

}  // namespace heed
