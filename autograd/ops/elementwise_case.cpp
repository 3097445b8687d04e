#include "autograd/ops/elementwise.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

const Shape kShapes[] = {{}, {1}, {3, 5}, {2, 3, 65}, {4, 64}, {3, 7001}};

// Of the forward for each element; the backward reads and writes `backward_tensors`.
struct Work {
  double flops = 1, backward_tensors = 2;
};

template <class S, class F>
std::vector<S> map(const ReferenceInput<S>& x, F f) {
  std::vector<S> y;
  for (const S& v : x.values) y.push_back(f(v));
  return y;
}

template <class S, class F>
std::vector<S> map_both(const ReferenceInputs<S>& in, F f) {
  std::vector<S> y;
  for (size_t i = 0; i < in[0].values.size(); ++i) y.push_back(f(in[0].values[i], in[1].values[i]));
  return y;
}

template <class S>
S plain_gelu(const S& x) {
  using std::tanh;
  return S(0.5) * x * (S(1) + tanh(S(0.7978845608028654) * (x + S(0.044715) * x * x * x)));
}

// A NaN takes the last branch and stays one, in the value and in the gradient.
template <class S>
S plain_relu(const S& x) {
  return x > S(0) ? x : x < S(0) ? S(0) : x * x;
}

// Samples of all shapes and bench rows for an operation with these inputs.
void declare(OpCase& op, SampleInput (*input)(const Shape&), size_t inputs,
             const std::function<Tensor(const Tensors&)>& run, const Reference& reference, const Work& work) {
  const auto make = [&](const Shape& shape) {
    OpSample sample{.label = shape.text(), .run = run, .reference = reference};
    for (size_t i = 0; i < inputs; ++i) {
      sample.inputs.push_back(input(shape));
      sample.inputs.back().name = std::string(1, static_cast<char>('a' + i));
    }
    return sample;
  };
  for (const Shape& shape : kShapes) op.sample(make(shape));
  const auto bench = [&](const Shape& shape) {
    const auto elements = static_cast<double>(shape.numel());
    OpSample sample = make(shape);
    sample.flops = work.flops * elements;
    sample.bytes = static_cast<double>(inputs + 1) * elements * sizeof(float);
    sample.backward_bytes = work.backward_tensors * elements * sizeof(float);
    return sample;
  };
  op.bench(bench({768, 512}));
  op.bench(bench({16384, 3072}), Device::cuda);
}

SampleInput any(const Shape& shape) { return normal("", shape, 0, 2); }
SampleInput not_zero(const Shape& shape) { return away_from_zero("", shape); }

void declare_errors_of_two(OpCase& op, Tensor (*run)(const Tensor&, const Tensor&)) {
  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  op.error<ShapeError>(
      "shapes",
      [=] {
        run(make({2, 3}), make({3, 2}));
      },
      op.name + ": a has shape (2, 3) but b");
  op.error<ShapeError>(
      "no broadcast",
      [=] {
        run(make({2, 3}), make({3}));
      },
      "(3)");
  op.error<DTypeError>(
      "dtypes", [=] { run(make({2}), make({2}, DType::f64)); }, "a is f32 but b is f64");
  op.error<DTypeError>(
      "tokens", [=] { run(from_tokens({1}, {1}), from_tokens({1}, {1})); }, "a is i32");
}

void declare_error_of_one(OpCase& op, const std::function<Tensor(const Tensor&)>& run) {
  op.error<DTypeError>(
      "tokens", [=] { run(from_tokens({1}, {1})); }, op.name + ": x is i32, it must be f32, bf16 or f64");
}

}  // namespace

OP_CASE(add) {
  declare(op, any, 2, [](const Tensors& in) { return add(in[0], in[1]); },
          plain([](const auto& in) { return map_both(in, [](const auto& a, const auto& b) { return a + b; }); }),
          {.backward_tensors = 4});  // each leaf gets a copy of the gradient
  declare_errors_of_two(op, add);
}

OP_CASE(mul) {
  declare(op, any, 2, [](const Tensors& in) { return mul(in[0], in[1]); },
          plain([](const auto& in) { return map_both(in, [](const auto& a, const auto& b) { return a * b; }); }),
          {.backward_tensors = 5});
  op.sample({.label = "square",
             .inputs = {normal("x", {33})},
             .run = [](const Tensors& in) { return mul(in[0], in[0]); },
             .reference = plain([](const auto& in) { return map(in[0], [](const auto& x) { return x * x; }); })});
  declare_errors_of_two(op, mul);
}

OP_CASE(scale) {
  constexpr double kFactor = -1.75;
  declare(op, any, 1, [](const Tensors& in) { return scale(in[0], kFactor); }, plain([](const auto& in) {
            return map(in[0], [](const auto& x) { return x * std::decay_t<decltype(x)>(kFactor); });
          }),
          {});
  declare_error_of_one(op, [](const Tensor& x) { return scale(x, 2.0); });
}

OP_CASE(gelu) {
  declare(op, any, 1, [](const Tensors& in) { return gelu(in[0]); },
          plain([](const auto& in) { return map(in[0], [](const auto& x) { return plain_gelu(x); }); }),
          {.flops = 30, .backward_tensors = 3});
  declare_error_of_one(op, gelu);
}

OP_CASE(relu) {
  declare(op, not_zero, 1, [](const Tensors& in) { return relu(in[0]); },
          plain([](const auto& in) { return map(in[0], [](const auto& x) { return plain_relu(x); }); }),
          {.backward_tensors = 3});
  declare_error_of_one(op, relu);
}
