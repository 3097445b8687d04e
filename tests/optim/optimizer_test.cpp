// What every optimizer takes and refuses, tried with Sgd.
#include "optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/tape.hpp"
#include "optim/sgd.hpp"
#include "tests/optim/optimizer_fixture.hpp"

namespace heed::optim {
namespace {

ParameterSpan span_of(int64_t n, DType dtype = DType::f32) { return {zeros({n}, dtype), zeros({n}, dtype), true}; }

template <class E>
void expect_refused(const std::vector<ParameterSpan>& spans, const std::string& text) {
  try {
    Sgd optimizer(spans, {});
    ADD_FAILURE() << "accepted, expected: " << text;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(Optimizer, RefusesSpansItCannotUpdate) {
  expect_refused<ValueError>({}, "no parameters");
  expect_refused<ShapeError>({span_of(3), {}}, "span 1 has no weights");
  expect_refused<ShapeError>({{zeros({3}, DType::f32), Tensor(), true}}, "span 0 has no gradients");
  expect_refused<ShapeError>({{zeros({3}, DType::f32), zeros({4}, DType::f32), true}}, "weights (3) and gradients (4)");
  expect_refused<ShapeError>({{zeros({2, 2}, DType::f32), zeros({2, 2}, DType::f32), true}}, "flat");
  expect_refused<ShapeError>({{zeros({}, DType::f32), zeros({}, DType::f32), true}}, "flat");
  expect_refused<DTypeError>({{zeros({3}, DType::f32), zeros({3}, DType::f64), true}}, "f32 weights and f64 gradients");
  expect_refused<DTypeError>({span_of(3), span_of(3, DType::f64)}, "span 1 has f64 weights");
  expect_refused<DTypeError>({span_of(3, DType::i32)}, "f32 or f64");
  ParameterSpan copied = span_of(3);
  copied.copies = zeros({3}, DType::f32);
  expect_refused<DTypeError>({copied}, "f32 copies of f32 weights");
  copied.copies = zeros({2}, DType::bf16);
  expect_refused<ShapeError>({copied}, "copies of span 0 have shape (2), it must be (3)");
}

TEST(Optimizer, RefusesSpansThatShareMemory) {
  const Tensor flat = zeros({10}, DType::f32), other = zeros({10}, DType::f32);
  const auto part = [](const Tensor& tensor, int64_t offset, int64_t n) { return tensor.slice(offset, {n}); };
  expect_refused<ValueError>(
      {{part(flat, 0, 5), part(other, 0, 5), true}, {part(flat, 4, 3), zeros({3}, DType::f32), true}},
      "the weights of span 0 and the weights of span 1 overlap");
  expect_refused<ValueError>({{part(flat, 0, 5), part(flat, 0, 5), true}},
                             "the weights of span 0 and the gradients of span 0 overlap");
  expect_refused<ValueError>(
      {{part(flat, 0, 5), part(other, 0, 5), true}, {part(flat, 5, 5), part(other, 0, 5), false}},
      "the gradients of span 0 and the gradients of span 1 overlap");
  ParameterSpan first = span_of(3), second = span_of(3);
  first.copies = second.copies = zeros({3}, DType::bf16);
  expect_refused<ValueError>({first, second}, "the copies of span 0 and the copies of span 1 overlap");
  // Neighbours in one buffer are what a parameter store has.
  EXPECT_NO_THROW(Sgd({{part(flat, 0, 5), part(other, 0, 5), true}, {part(flat, 5, 5), part(other, 5, 5), false}}, {}));
}

TEST(Optimizer, TakesAnEmptySpan) {
  const ParameterSpan full = make_span(DType::f32, {1}, {1}, true);
  Sgd optimizer({full, span_of(0)}, {});
  optimizer.step(0.5, 1);
  EXPECT_EQ(full.weights.item(), 0.5);
}

TEST(Optimizer, RefusesStepsThatMeanNothing) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const ParameterSpan span = make_span(DType::f32, {1}, {1}, true);
  Sgd optimizer({span}, {});
  for (const double lr : {-0.1, kNan, kInf}) EXPECT_THROW(optimizer.step(lr, 1), ValueError) << lr;
  for (const double scale : {0.0, -1.0, kNan, kInf}) EXPECT_THROW(optimizer.step(0.1, scale), ValueError) << scale;
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_EQ(span.weights.item(), 1);
}

Tensor parameter(const Shape& shape, double value) {
  const Tensor tensor = full(shape, DType::f32, value);
  tensor.set_requires_grad(true);
  return tensor;
}

TEST(Optimizer, TakesParametersOfOnesOwn) {
  const Tensor matrix = parameter({2, 3}, 1), vector = parameter({3}, 1), scalar = parameter({}, 1);
  const Tensor gradient = full({3}, DType::f32, 7);
  vector.set_grad(gradient);
  Sgd optimizer(spans_of({matrix, vector, scalar}), {.weight_decay = 0.5});
  EXPECT_EQ(matrix.grad().values(), std::vector<double>(6, 0));
  optimizer.step(1);
  EXPECT_EQ(matrix.values(), std::vector<double>(6, 0.5)) << "decayed";
  EXPECT_EQ(vector.values(), std::vector<double>(3, -6)) << "by the gradient that it has";
  EXPECT_EQ(scalar.item(), 1) << "not decayed";
  optimizer.zero_grad();
  EXPECT_EQ(gradient.values(), std::vector<double>(3, 0));
}

TEST(Optimizer, BackwardWritesTheGradientsOfItsSpans) {
  const Tensor x = parameter({2, 2}, 3);
  Sgd optimizer(spans_of({x}), {});
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    backward(sum(mul(x, x)));
    EXPECT_EQ(x.grad().values(), std::vector<double>(4, step == 0 ? 6 : 3));
    optimizer.step(0.25);
  }
  EXPECT_EQ(x.values(), std::vector<double>(4, 0.75));
}

TEST(Optimizer, RefusesTensorsThatAreNoParameters) {
  EXPECT_THROW(spans_of({Tensor()}), GraphError);
  EXPECT_THROW(spans_of({zeros({2}, DType::f32)}), GraphError);
  EXPECT_THROW(spans_of({scale(parameter({2}, 1), 2)}), GraphError) << "a result of an operation";
}

TEST(Optimizer, UpdatesOnlyItsSlices) {
  const Tensor weights = full({10}, DType::f32, 1), gradients = full({10}, DType::f32, 1);
  Sgd optimizer({{weights.slice(3, {4}), gradients.slice(3, {4}), false}}, {});
  optimizer.step(0.5, 1);
  EXPECT_EQ(weights.values(), (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.5, 1, 1, 1}));
}

}  // namespace
}  // namespace heed::optim
