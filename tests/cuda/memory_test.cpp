// Device memory, copies, products and recorded graphs, below the operations.
#include <gtest/gtest.h>

#include <utility>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/layer_norm.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"
#include "optim/sgd.hpp"
#include "tests/cuda/cuda_test.hpp"

namespace heed::test {
namespace {

using Memory = CudaTest;

std::vector<double> counted(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 251) - 100);
  return values;
}

TEST_F(Memory, GoesThereAndBack) {
  for (const int64_t n : {0, 1, 3, 1000, 70'001}) {
    const std::vector<double> values = counted(n);
    const Tensor there = from_values({n}, DType::f32, values, Device::cuda);
    EXPECT_EQ(there.device(), Device::cuda);
    EXPECT_EQ(there.values(), values);
    EXPECT_EQ(there.clone().to(Device::cpu).values(), values);
  }
}

TEST_F(Memory, IsAccountedForByDevice) {
  const MemoryReport cpu = memory_report(Device::cpu), before = memory_report(Device::cuda);
  const Tensor tensor = empty({1000}, DType::f32, Device::cuda, MemoryCategory::optimizer);
  const auto optimizer = static_cast<size_t>(MemoryCategory::optimizer);
  EXPECT_GE(memory_report(Device::cuda).category[optimizer].current_bytes,
            before.category[optimizer].current_bytes + 4000);
  EXPECT_EQ(memory_report(Device::cpu).total.current_bytes, cpu.total.current_bytes);
}

TEST_F(Memory, OfTheDeviceIsNotReadByTheHost) {
  const Tensor there = full({4}, DType::f32, 1.0, Device::cuda);
  EXPECT_THROW(there.data<float>(), DeviceError);
  EXPECT_THROW(add(there, full({4}, DType::f32, 1.0)), DeviceError);
  EXPECT_THROW(add(full({4}, DType::f32, 1.0), there), DeviceError);
  EXPECT_THROW(linear(full({2, 4}, DType::f32, 1.0, Device::cuda), full({3, 4}, DType::f32, 1.0), Tensor()),
               DeviceError);
  EXPECT_THROW(scale(full({4}, DType::f64, 1.0, Device::cuda), 2), DTypeError);
}

// So many elements that on the CPU several threads would read memory of the device, and end the process.
TEST_F(Memory, OfTwoDevicesIsRefusedByEveryOperation) {
  const auto make = [](Device device, const Shape& shape) { return full(shape, DType::f32, 1.0, device); };
  const auto tokens = [](Device device) { return from_tokens({2}, {0, 1}, device); };
  for (const auto& [here, there] : {std::pair(Device::cpu, Device::cuda), std::pair(Device::cuda, Device::cpu)}) {
    const Tensor a = make(here, {300, 300}), b = make(there, {300, 300}), row = make(there, {300});
    for (const auto operation : {add, sub, mul, div, matmul}) {
      EXPECT_THROW(operation(a, b), DeviceError);
      EXPECT_THROW(operation(a, make(there, {300, 1})), DeviceError);
    }
    EXPECT_THROW(linear(a, b, Tensor()), DeviceError);
    EXPECT_THROW(linear(a, a, row), DeviceError);
    EXPECT_THROW(linear_gelu(a, b, Tensor()), DeviceError);
    EXPECT_THROW(layer_norm(a, row, Tensor()), DeviceError);
    EXPECT_THROW(layer_norm(a, make(here, {300}), row), DeviceError);
    EXPECT_THROW(embedding(a, tokens(there)), DeviceError);
    EXPECT_THROW(add_positions(make(here, {1, 300, 300}), b), DeviceError);
    EXPECT_THROW(cross_entropy(make(here, {2, 3}), tokens(there)), DeviceError);
    EXPECT_THROW(dropout_add(a, b, 0.5, {}, 0), DeviceError);
    const Tensor q = make(here, {2, 3, 4}), other = make(there, {2, 3, 4});
    EXPECT_THROW(attention(q, other, q, {.num_heads = 1}), DeviceError);
    EXPECT_THROW(attention(q, q, other, {.num_heads = 1}), DeviceError);
    EXPECT_THROW(attention_packed(make(here, {2, 3, 12}), {.num_heads = 1, .lengths = tokens(there)}), DeviceError);

    EXPECT_THROW(a.set_grad(b), DeviceError);
    const Tensor x = make(here, {300, 300}).set_requires_grad(true);
    EXPECT_THROW(backward(scale(x, 2), b), DeviceError);
    EXPECT_THROW(optim::Sgd({{row, make(here, {300}), true}}, {}), DeviceError);
  }
}

TEST_F(Memory, SaysBothDevices) {
  try {
    mul(zeros({2}, DType::f32), zeros({2}, DType::f32, Device::cuda));
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "mul: a is on cpu but b is on cuda: copy one of them with to()");
  }
}

TEST_F(Memory, SaysWhatIsMissing) {
  try {
    empty({int64_t{1} << 43}, DType::f32, Device::cuda);
    ADD_FAILURE() << "32 TiB were there";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {"32.0 TiB needed for activations", "in use", "free of", "(the device)"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  EXPECT_EQ(full({2}, DType::f32, 1.0, Device::cuda).values(), std::vector<double>(2, 1.0));  // and goes on
}

TEST_F(Memory, AGraphDoesItsWorkWhenReplayedOnly) {
  const NoGradGuard no_grad;
  const Tensor x = full({300}, DType::f32, 2.0, Device::cuda), y = full({300}, DType::f32, 0.0, Device::cuda);
  cuda::Graph graph;
  graph.record([&] { copy_elements_to(y.ref(), scale(add(x, y), 3.0)); });
  EXPECT_EQ(y.values()[7], 0);
  graph.replay();
  EXPECT_EQ(y.values()[299], 6);
  graph.replay();
  EXPECT_EQ(y.values()[0], 24);
}

TEST_F(Memory, AGraphThatWaitsIsRefused) {
  const Tensor x = full({3}, DType::f32, 2.0, Device::cuda);
  cuda::Graph graph;
  EXPECT_THROW(graph.record([&] { x.values(); }), DeviceError);
  EXPECT_FALSE(graph.recorded());
  EXPECT_EQ(x.values(), std::vector<double>(3, 2.0));  // the stream is as it was
  graph.record([&] { fill_zero(x.ref()); });
  graph.replay();
  EXPECT_EQ(x.values(), std::vector<double>(3, 0.0));
}

}  // namespace
}  // namespace heed::test
