// linear_gelu beside linear and gelu as two operations: on the CPU the same bits, in no more memory.
#include "autograd/ops/linear.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/check/op_case.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

using Layer = Tensor (*)(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy);
Tensor two_operations(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy) {
  return gelu(linear(x, weight, bias, bias_copy));
}

struct Inputs {
  Tensor x, weight, bias;

  Inputs(const Shape& shape, int64_t outputs, DType dtype, bool with_bias)
      : x(draw(normal("x", shape), dtype, 2).set_requires_grad(true)),
        weight(draw(normal("weight", {outputs, shape.columns()}), dtype, 3).set_requires_grad(true)) {
    if (with_bias) {
      bias = draw(vector_parameter(normal("bias", {outputs})), dtype, 4).set_requires_grad(true);
    }
  }
  std::vector<std::vector<double>> gradients() const {
    std::vector<std::vector<double>> all;
    for (const Tensor& input : {x, weight, bias}) {
      if (input) all.push_back(input.grad().values());
    }
    return all;
  }
};

// The result and all gradients.
std::vector<std::vector<double>> run(Layer layer, const Inputs& in, bool again = false) {
  const Recomputed whole = [&](const Tensors& inputs) { return layer(inputs[0], in.weight, in.bias, Tensor()); };
  const Tensor y = again ? recompute(whole, {in.x}) : whole({in.x});
  const std::vector<double> values = y.values();
  backward(y, draw(normal("dy", y.shape()), y.dtype(), 5));
  std::vector<std::vector<double>> all = in.gradients();
  all.push_back(values);
  return all;
}

TEST(LinearGelu, GivesTheBitsOfTwoOperations) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const bool bias : {true, false}) {
      for (const auto& [shape, outputs] : {std::pair<Shape, int64_t>{{1}, 1},
                                           {{2, 3, 5}, 7},
                                           {{33, 17}, 65},
                                           {{300, 48}, 192},
                                           {{0, 4}, 3},
                                           {{2, 4}, 0}}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << shape.text() << (bias ? "" : " without bias"));
        const auto make = [&, &shape = shape, &outputs = outputs] { return Inputs(shape, outputs, dtype, bias); };
        const auto want = run(two_operations, make());
        EXPECT_EQ(run(linear_gelu, make()), want);
        EXPECT_EQ(run(linear_gelu, make(), true), want) << "recomputed";
      }
    }
  }
}

// The gradient of u takes the memory of u, whoever looks for anomalies.
TEST(LinearGelu, BackwardNeedsNoMemoryButForGradients) {
  constexpr int64_t kRows = 512, kInputs = 16, kOutputs = 256;
  const int threads = cpu::max_threads();
  cpu::set_max_threads(2);  // each has some scratch memory
  for (const bool anomaly : {false, true}) {
    set_detect_anomaly(anomaly);
    const Inputs in({kRows, kInputs}, kOutputs, DType::f32, false);
    const Tensor y = linear_gelu(in.x, in.weight, in.bias);
    const Tensor dy = full(y.shape(), y.dtype(), 0.5);
    reset_memory_peaks(Device::cpu);
    const int64_t start = memory_report(Device::cpu).total.current_bytes;
    backward(y, dy);
    EXPECT_LT(memory_report(Device::cpu).total.peak_bytes - start, kRows * kOutputs * 4);
  }
  set_detect_anomaly(false);
  cpu::set_max_threads(threads);
}

TEST(LinearGelu, KeepsNothingWithoutABackward) {
  const Inputs in({512, 16}, 256, DType::f32, true);
  const NoGradGuard no_grad;
  const int64_t before = memory_report(Device::cpu).total.current_bytes;
  const Tensor y = linear_gelu(in.x, in.weight, in.bias);
  EXPECT_EQ(memory_report(Device::cpu).total.current_bytes - before, y.numel() * 4);
}

TEST(LinearGelu, AnomalyModeNamesIt) {
  const Inputs in({3, 4}, 5, DType::f32, true);
  in.weight.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  set_detect_anomaly(true);
  try {
    linear_gelu(in.x, in.weight, in.bias);
    ADD_FAILURE() << "a NaN went through";
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("result of operation 'linear_gelu'"), std::string::npos) << error.what();
  }
  set_detect_anomaly(false);
}

}  // namespace
}  // namespace heed::test
