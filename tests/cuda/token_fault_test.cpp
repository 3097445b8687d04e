// Tokens outside their range on CUDA: nothing is read or written outside, and the host is told as on the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/ops/cross_entropy.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/linear_cross_entropy.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"

namespace heed::test {
namespace {

using TokenFault = CudaTest;

constexpr Device kCuda = Device::cuda;

// The text of the ValueError that waiting for the device throws, or nothing.
std::string fault() {
  try {
    synchronize(kCuda);
  } catch (const ValueError& error) {
    return error.what();
  }
  return {};
}

TEST_F(TokenFault, IsThrownWhenTheHostWaits) {
  const Tensor table = full({65, 4}, DType::f32, 2.0, kCuda);
  const Tensor y = embedding(table, from_tokens({2, 2}, {0, 64, 3, 65}, kCuda));
  EXPECT_EQ(fault(), "embedding: token 65 at position (1, 1), it must be from 0 to 64 (a vocabulary of 65)");
  EXPECT_EQ(fault(), "") << "it is told once";
  std::vector<double> expected(16, 2.0);
  std::fill(expected.end() - 4, expected.end(), 0.0);
  EXPECT_EQ(y.values(), expected);
}

TEST_F(TokenFault, IsThrownByACopyToTheHost) {
  const Tensor y = embedding(full({3, 2}, DType::f32, 1.0, kCuda), from_tokens({1}, {-7}, kCuda));
  EXPECT_THROW(y.values(), ValueError);
  EXPECT_EQ(y.values(), std::vector<double>(2, 0.0));
}

TEST_F(TokenFault, OfATargetIsToldAsOnTheCpu) {
  const Tensor logits = full({2, 2, 3}, DType::f32, 1.0, kCuda);
  cross_entropy(logits, from_tokens({2, 2}, {0, -1, 3, 2}, kCuda));
  EXPECT_EQ(fault(),
            "cross_entropy: target 3 at position (1, 0), it must be from 0 to 2 (a vocabulary of 3) or -1 (ignored)");
  cross_entropy(logits, from_tokens({2, 2}, {0, 1, 1, 2}, kCuda), {.vocab = 2});
  EXPECT_EQ(fault(),
            "cross_entropy: target 2 at position (1, 1), it must be from 0 to 1 (a vocabulary of 2) or -1 (ignored)");
}

TEST_F(TokenFault, OfATargetCountsForNothing) {
  for (const int64_t columns : {5, 2500}) {  // a warp for a row, and a block
    std::vector<double> values;
    for (int64_t i = 0; i < 3 * columns; ++i) values.push_back(static_cast<double>(i % 7) / 7);
    const auto run = [&](const std::vector<int32_t>& targets) {
      const Tensor logits = from_values({3, columns}, DType::f32, values, kCuda).set_requires_grad(true);
      const Tensor loss = cross_entropy(logits, from_tokens({3}, targets, kCuda));
      backward(loss);
      fault();
      std::vector<double> result = logits.grad().values();
      result.push_back(loss.item());
      return result;
    };
    const auto wrong = static_cast<int32_t>(columns);
    EXPECT_EQ(run({1, wrong, 3}), run({1, -1, 3}));
    EXPECT_EQ(run({wrong, -2, -2147483647}), run({-1, -1, -1}));
  }
}

// The second of two chunks has the wrong target.
TEST_F(TokenFault, OfATargetOfTheFusedHeadIsToldAndCountsForNothing) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(0.1 * (i % 5));
  const auto run = [&](const std::vector<int32_t>& targets) {
    const Tensor x = from_values({2, 2, 6}, DType::f32, values, kCuda).set_requires_grad(true);
    const Tensor weight = from_values({4, 6}, DType::f32, values, kCuda).set_requires_grad(true);
    const Tensor loss =
        linear_cross_entropy_and_backward(x, weight, from_tokens({2, 2}, targets, kCuda), {.chunk_bytes = 32});
    const std::string told = fault();
    std::vector<double> result = x.grad().values();
    for (const double gradient : weight.grad().values()) result.push_back(gradient);
    result.push_back(loss.item());
    return std::pair(told, result);
  };
  const auto [told, result] = run({0, -1, 4, 2});
  EXPECT_EQ(told,
            "cross_entropy: target 4 at position (1, 0), it must be from 0 to 3 (a vocabulary of 4) or -1 (ignored)");
  const auto [nothing, expected] = run({0, -1, -1, 2});
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(result, expected);
}

TEST_F(TokenFault, OfATokenGivesItsTableNoGradient) {
  const auto gradient = [](const std::vector<int32_t>& tokens) {
    const Tensor table = full({70, 3}, DType::f32, 1.0, kCuda).set_requires_grad(true);
    const auto count = static_cast<int64_t>(tokens.size());
    const Tensor y = embedding(table, from_tokens({count}, tokens, kCuda));
    backward(y, full(y.shape(), DType::f32, 1.0, kCuda));
    fault();
    return table.grad().values();
  };
  EXPECT_EQ(gradient({5, 70, 5, -1, 69, 2147483647}), gradient({5, 5, 69}));
  EXPECT_EQ(gradient({-1}), std::vector<double>(210, 0.0));
}

// However the threads of a launch run, its first wrong token is told; of several launches the first.
TEST_F(TokenFault, TheFirstIsTold) {
  const Tensor table = full({9, 2}, DType::f32, 1.0, kCuda);
  std::vector<int32_t> values(3000, 8);
  for (size_t i = 700; i < values.size(); i += 3) values[i] = 9 + static_cast<int32_t>(i);
  const Tensor tokens = from_tokens({3, 1000}, values, kCuda), others = from_tokens({1}, {-5}, kCuda);
  embedding(table, tokens);
  embedding(table, others);
  EXPECT_EQ(fault(), "embedding: token 709 at position (0, 700), it must be from 0 to 8 (a vocabulary of 9)");
  embedding(table, others);
  embedding(table, tokens);
  EXPECT_EQ(fault(), "embedding: token -5 at position (0), it must be from 0 to 8 (a vocabulary of 9)");
}

TEST_F(TokenFault, OfARecordedGraphIsToldForEachReplay) {
  const NoGradGuard no_grad;
  const Tensor table = full({9, 2}, DType::f32, 1.0, kCuda), tokens = from_tokens({2}, {1, 9}, kCuda);
  const Tensor y = full({2, 2}, DType::f32, 0.0, kCuda);
  cuda::Graph graph;
  graph.record([&] { copy_elements_to(y.ref(), embedding(table, tokens)); });
  EXPECT_EQ(fault(), "");
  for (int replay = 0; replay < 2; ++replay) {
    graph.replay();
    EXPECT_EQ(fault(), "embedding: token 9 at position (1), it must be from 0 to 8 (a vocabulary of 9)");
  }
  const std::vector<int32_t> good{1, 8};
  copy_memory(tokens.ref().data, kCuda, good.data(), Device::cpu, 8);
  graph.replay();
  EXPECT_EQ(y.values(), std::vector<double>(4, 1.0));
}

}  // namespace
}  // namespace heed::test
