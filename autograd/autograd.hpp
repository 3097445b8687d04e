// Everything that a program needs to compute with tensors and their gradients:
//   Tensor x = from_values({2}, DType::f64, {1, 2}).set_requires_grad(true);
//   Tensor loss = sum(x * x + 3.0 * x);
//   backward(loss);
//   x.grad().values();  // 5, 7
#pragma once

#include "autograd/check/gradcheck.hpp"
#include "autograd/operators.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/broadcast.hpp"
#include "autograd/ops/copy.hpp"
#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/gated.hpp"
#include "autograd/ops/layer_norm.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/ops/linear_cross_entropy.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/qk_norm.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/rms_norm.hpp"
#include "autograd/ops/rope.hpp"
#include "autograd/ops/softmax.hpp"
#include "autograd/ops/transpose.hpp"
#include "autograd/tape.hpp"
#include "autograd/tensor.hpp"
