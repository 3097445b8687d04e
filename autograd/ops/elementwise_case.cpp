#include "autograd/ops/elementwise.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

// Of the forward for each element; the backward reads and writes `backward_tensors`.
struct Work {
  double flops = 1, backward_tensors = 2;
  bool backward_reads_result = false;
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

// By tanh, since the quotient has no derivative where e^-x is Inf.
template <class S>
S plain_sigmoid(const S& x) {
  using std::tanh;
  return S(0.5) * (S(1) + tanh(S(0.5) * x));
}

template <class S>
S plain_gelu_erf(const S& x) {
  using std::erf;
  return S(0.5) * x * (S(1) + erf(S(0.7071067811865476) * x));
}

template <class S>
S plain_silu(const S& x) {
  using std::exp;
  return x / (S(1) + exp(S(0) - x));
}

// A NaN takes the last branch and stays one, in the value and in the gradient.
template <class S>
S plain_relu(const S& x) {
  return x > S(0) ? x : x < S(0) ? S(0) : x * x;
}

// A NaN is not below 0.
template <class S>
S plain_relu2(const S& x) {
  return x < S(0) ? S(0) : x * x;
}

// Samples of all shapes and bench rows for an operation with these inputs.
void declare(OpCase& op, SampleInput (*input)(const Shape&), size_t inputs,
             const std::function<Tensor(const Tensors&)>& run, const Reference& reference, const Work& work) {
  const auto make = [&](const Shape& shape) {
    OpSample sample{
        .label = shape.text(), .run = run, .reference = reference, .backward_reads_result = work.backward_reads_result};
    for (size_t i = 0; i < inputs; ++i) {
      sample.inputs.push_back(input(shape));
      sample.inputs.back().name = std::string(1, static_cast<char>('a' + i));
    }
    return sample;
  };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{2, 3, 65}, Shape{4, 64}, Shape{3, 1001}}) {
    op.sample(make(shape));
  }
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
// tanh saves y in bf16: where y is near 1, its rounding is much of 1 - y^2.
SampleInput small(const Shape& shape) { return normal("", shape); }
SampleInput not_zero(const Shape& shape) { return away_from_zero("", shape); }
SampleInput positive(const Shape& shape) { return normal("", shape, 2, 0.4); }

template <class F>
Reference plain_of_one(F f) {
  return plain([f](const auto& in) { return map(in[0], f); });
}
template <class F>
Reference plain_of_two(F f) {
  return plain([f](const auto& in) { return map_both(in, f); });
}

void declare_errors_of_two(OpCase& op, Tensor (*run)(const Tensor&, const Tensor&)) {
  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  op.error<ShapeError>(
      "shapes",
      [=] {
        run(make({2, 3}), make({3, 2}));
      },
      op.name + ": a has shape (2, 3) but b has shape (3, 2): in dimension -2 they have 2 and 3");
  op.error<ShapeError>(
      "shapes of different rank",
      [=] {
        run(make({3}), make({3, 2}));
      },
      op.name + ": a has shape (3) but b has shape (3, 2)");
  op.error<DTypeError>(
      "dtypes", [=] { run(make({2}), make({2}, DType::f64)); }, "a is f32 but b is f64");
  op.error<DTypeError>(
      "tokens", [=] { run(from_tokens({1}, {1}), from_tokens({1}, {1})); }, "a is i32");
}

void declare_error_of_one(OpCase& op, const std::function<Tensor(const Tensor&)>& run) {
  op.error<DTypeError>(
      "tokens", [=] { run(from_tokens({1}, {1})); }, op.name + ": x is i32, it must be f32, bf16 or f64");
}

void declare_two(OpCase& op, SampleInput (*input)(const Shape&), Tensor (*run)(const Tensor&, const Tensor&),
                 const Reference& reference, const Work& work) {
  declare(
      op, input, 2, [run](const Tensors& in) { return run(in[0], in[1]); }, reference, work);
  declare_errors_of_two(op, run);
}

void declare_one(OpCase& op, SampleInput (*input)(const Shape&), Tensor (*run)(const Tensor&),
                 const Reference& reference, const Work& work) {
  declare(
      op, input, 1, [run](const Tensors& in) { return run(in[0]); }, reference, work);
  declare_error_of_one(op, run);
}

}  // namespace

OP_CASE(add) {
  declare_two(op, any, add, plain_of_two([](const auto& a, const auto& b) { return a + b; }),
              {.backward_tensors = 4});  // each leaf gets a copy of the gradient
}

OP_CASE(sub) {
  declare_two(op, any, sub, plain_of_two([](const auto& a, const auto& b) { return a - b; }), {.backward_tensors = 4});
  op.sample({.label = "a tensor and itself",
             .inputs = {normal("x", {33})},
             .run = [](const Tensors& in) { return sub(in[0], in[0]); },
             .reference = plain_of_one([](const auto& x) { return x - x; })});
}

OP_CASE(mul) {
  declare_two(op, any, mul, plain_of_two([](const auto& a, const auto& b) { return a * b; }), {.backward_tensors = 5});
  op.sample({.label = "square",
             .inputs = {normal("x", {33})},
             .run = [](const Tensors& in) { return mul(in[0], in[0]); },
             .reference = plain_of_one([](const auto& x) { return x * x; })});
}

OP_CASE(div) {
  declare_two(op, not_zero, heed::div, plain_of_two([](const auto& a, const auto& b) { return a / b; }),
              {.backward_tensors = 7});
}

OP_CASE(scale) {
  constexpr double kFactor = -1.75;
  declare(op, any, 1, [](const Tensors& in) { return scale(in[0], kFactor); },
          plain_of_one([](const auto& x) { return x * std::decay_t<decltype(x)>(kFactor); }), {});
  declare_error_of_one(op, [](const Tensor& x) { return scale(x, 2.0); });
}

OP_CASE(add_scalar) {
  constexpr double kValue = -1.3;
  declare(op, any, 1, [](const Tensors& in) { return add_scalar(in[0], kValue); },
          plain_of_one([](const auto& x) { return x + std::decay_t<decltype(x)>(kValue); }), {});
  declare_error_of_one(op, [](const Tensor& x) { return add_scalar(x, 2.0); });
}

OP_CASE(gelu) {
  declare_one(op, any, gelu, plain_of_one([](const auto& x) { return plain_gelu(x); }),
              {.flops = 30, .backward_tensors = 3});
}

OP_CASE(gelu_erf) {
  declare_one(op, any, gelu_erf, plain_of_one([](const auto& x) { return plain_gelu_erf(x); }),
              {.flops = 40, .backward_tensors = 3});
}

OP_CASE(silu) {
  declare_one(op, any, silu, plain_of_one([](const auto& x) { return plain_silu(x); }),
              {.flops = 20, .backward_tensors = 3});
}

OP_CASE(relu) {
  declare_one(op, not_zero, relu, plain_of_one([](const auto& x) { return plain_relu(x); }), {.backward_tensors = 3});
}

OP_CASE(relu2) {
  declare_one(op, not_zero, relu2, plain_of_one([](const auto& x) { return plain_relu2(x); }), {.backward_tensors = 3});
}

OP_CASE(tanh) {
  declare_one(op, small, heed::tanh, plain_of_one([](const auto& x) {
                using std::tanh;
                return tanh(x);
              }),
              {.flops = 30, .backward_tensors = 3, .backward_reads_result = true});
}

OP_CASE(softcap) {
  constexpr double kCap = 3;
  declare(op, any, 1, [](const Tensors& in) { return softcap(in[0], kCap); }, plain_of_one([](const auto& x) {
            using std::tanh;
            using S = std::decay_t<decltype(x)>;
            return S(kCap) * tanh(x / S(kCap));
          }),
          {.flops = 30, .backward_tensors = 3, .backward_reads_result = true});
  declare_error_of_one(op, [](const Tensor& x) { return softcap(x, 2.0); });
  for (const double cap : {0.0, -1.0}) {
    op.error<ValueError>(
        "cap", [cap] { softcap(full({2}, DType::f32, 1.0), cap); },
        fmt::format("softcap: cap is {}, it must be above 0", cap));
  }
}

OP_CASE(sigmoid) {
  declare_one(op, any, sigmoid, plain_of_one([](const auto& x) { return plain_sigmoid(x); }),
              {.flops = 20, .backward_tensors = 3, .backward_reads_result = true});
}

OP_CASE(exp) {
  declare_one(op, any, heed::exp, plain_of_one([](const auto& x) {
                using std::exp;
                return exp(x);
              }),
              {.flops = 20, .backward_tensors = 3, .backward_reads_result = true});
}

OP_CASE(log) {
  declare_one(op, positive, heed::log, plain_of_one([](const auto& x) {
                using std::log;
                return log(x);
              }),
              {.flops = 20, .backward_tensors = 3});
}
