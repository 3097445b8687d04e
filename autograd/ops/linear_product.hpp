// The GEMM of the forward of a linear layer on the CPU: y (rows, N) = x (rows, K) weight^T (K, N) + bias (N).
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/ops/linear.hpp"

namespace heed::cpu {

template <class T>
Gemm<T> linear_product(const LinearForward& p) {
  return {.m = p.x.shape.rows(),
          .n = p.weight.shape[0],
          .k = p.weight.shape[1],
          .a = p.x.as<T>(),
          .b = p.weight.as<T>(),
          .c = p.y.as<T>(),
          .transpose_b = true,
          .bias = p.bias.as<AccumT<T>>()};
}

}  // namespace heed::cpu
