// XOR by a network of two layers, with the same initial weights and the same losses as xor.py in PyTorch.
#include <fmt/core.h>

#include "autograd/autograd.hpp"
#include "optim/sgd.hpp"

using namespace heed;

int main() {
  const Tensor x = from_values({4, 2}, DType::f32, {0, 0, 0, 1, 1, 0, 1, 1});
  const Tensor target = from_values({4, 1}, DType::f32, {0, 1, 1, 0});

  const Tensor w1 = from_values({2, 3}, DType::f32, {0.9, -0.7, 0.4, -0.8, 0.6, 0.5});
  const Tensor b1 = zeros({3}, DType::f32);
  const Tensor w2 = from_values({3, 1}, DType::f32, {0.8, 0.7, -0.3});
  const Tensor b2 = zeros({1}, DType::f32);
  const std::vector<Tensor> parameters{w1, b1, w2, b2};
  for (const Tensor& parameter : parameters) parameter.set_requires_grad(true);
  optim::Sgd optimizer(optim::spans_of(parameters), {.momentum = 0.9});

  Tensor y;
  for (int step = 1; step <= 100; ++step) {
    y = matmul(tanh(matmul(x, w1) + b1), w2) + b2;
    const Tensor error = y - target;
    const Tensor loss = mean(error * error);
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(0.1);
    if (step % 20 == 0) fmt::print("step {:3}  loss {:.6f}\n", step, loss.item());
  }
  fmt::print("0 0 -> {:.3f}  0 1 -> {:.3f}  1 0 -> {:.3f}  1 1 -> {:.3f}\n", y.values()[0], y.values()[1],
             y.values()[2], y.values()[3]);
}
