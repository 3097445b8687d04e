// Muon on CUDA, held against the same in f64 on the CPU.
#include "optim/muon.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optim/newton_schulz.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

class MuonOnCuda : public test::CudaTest {
 protected:
  static ParameterSpan span_on_cuda(const std::vector<double>& weights) {
    const Shape shape{static_cast<int64_t>(weights.size())};
    const ParameterSpan span{empty(shape, DType::f32, Device::cuda), empty(shape, DType::f32, Device::cuda), true};
    set(span.weights, weights);
    return span;
  }
  static void set(const Tensor& tensor, const std::vector<double>& values) {
    copy_elements_to(tensor.ref(), from_values(tensor.shape(), DType::f32, values));
  }
  // A wide and a tall matrix in one span.
  static std::vector<Tensor> matrices_of(const ParameterSpan& span) {
    return {span.gradients.slice(0, {6, 20}), span.gradients.slice(120, {9, 5})};
  }
  static constexpr int64_t kSize = 120 + 45;
};

TEST_F(MuonOnCuda, NewtonSchulzFollowsF64OnTheCpu) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {5, 33}, {33, 5}, {16, 16}}) {
    const Shape shape{2, rows, columns};
    const std::vector<double> values = random_values(shape.numel(), 1, 30);
    const Tensor here = from_values(shape, DType::f32, values).to(Device::cuda);
    const std::vector<double> found = newton_schulz(here).values();
    const std::vector<double> expected = newton_schulz(from_values(shape, DType::f64, values)).values();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], test::kNewtonSchulzF32) << rows << " x " << columns << " element " << i;
    }
  }
}

TEST_F(MuonOnCuda, FollowsF64OnTheCpu) {
  for (const bool gathers : {false, true}) {  // u into a batch, or in place of the gradients
    const std::vector<double> start = random_values(kSize, 0);
    const ParameterSpan span = span_on_cuda(start), exact = make_span(DType::f64, start, start, true);
    std::function<void()> gather;
    if (gathers) gather = [] {};
    Muon optimizer({span}, matrices_of(span), {.momentum = 0.8}, gather),
        plain({exact}, matrices_of(exact), {.momentum = 0.8});
    for (uint32_t step = 1; step <= 3; ++step) {
      const std::vector<double> gradients = random_values(kSize, step);
      set(span.gradients, gradients);
      set_gradients(exact, gradients);
      optimizer.step(0.1 / step, 0.37);
      plain.step(0.1 / step, 0.37);
    }
    const std::vector<double> found = span.weights.values(), expected = exact.weights.values();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], test::kNewtonSchulzF32) << i;
    const std::vector<double> m = optimizer.state()[0].second.values();
    for (size_t i = 0; i < m.size(); ++i) ASSERT_NEAR(m[i], plain.state()[0].second.values()[i], test::kSixDigits) << i;
  }
}

TEST_F(MuonOnCuda, NothingChangesWhereTheStepIsNotValid) {
  const std::vector<double> start = random_values(kSize, 3);
  const ParameterSpan span = span_on_cuda(start);
  set(span.gradients, random_values(kSize, 4));
  Muon optimizer({span}, matrices_of(span), {});
  const StepState state{.learning_rate = 0.1, .optimizer_step = 1, .is_valid = 0};
  const Tensor memory = empty({static_cast<int64_t>(sizeof state / sizeof(double))}, DType::f64, Device::cuda);
  copy_memory(memory.ref().data, Device::cuda, &state, Device::cpu, sizeof state);
  optimizer.step(static_cast<StepState*>(memory.ref().data));
  EXPECT_EQ(span.weights.values(), start);
  EXPECT_EQ(optimizer.state()[0].second.values(), std::vector<double>(kSize, 0.0));
}

}  // namespace
}  // namespace heed::optim
