#include "autograd/ops/linear.hpp"

#include <cmath>

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in) {
  const int64_t rows = in[0].shape.rows(), inputs = in[1].shape[1], outputs = in[1].shape[0];
  std::vector<S> y;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t o = 0; o < outputs; ++o) {
      S sum = in.size() > 2 ? in[2][o] : S(0);
      for (int64_t i = 0; i < inputs; ++i) sum += in[0][row * inputs + i] * in[1][o * inputs + i];
      y.push_back(sum);
    }
  }
  return y;
}

OpSample sample(const Shape& x, int64_t outputs, bool bias) {
  OpSample result{.label = fmt::format("{} to {}{}", x, outputs, bias ? "" : " without bias"),
                  .inputs = {normal("x", x), normal("weight", {outputs, x.columns()})},
                  .run = [](const Tensors& in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); },
                  .reference = plain([](const auto& in) { return reference(in); })};
  if (bias) result.inputs.push_back(vector_parameter(normal("bias", {outputs})));
  result.flops = 2.0 * static_cast<double>(x.numel() * outputs);
  result.bytes = 4.0 * static_cast<double>(x.numel() + x.rows() * outputs + x.columns() * outputs);
  result.backward_bytes = result.bytes + 4.0 * static_cast<double>(x.numel());
  result.backward_parameter_bytes = 4.0 * static_cast<double>(x.columns() * outputs);
  return result;
}

template <class S>
std::vector<S> gelu_reference(const ReferenceInputs<S>& in) {
  using std::tanh;
  const int64_t rows = in[0].shape.rows(), inputs = in[1].shape[1], outputs = in[1].shape[0];
  std::vector<S> y;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t o = 0; o < outputs; ++o) {
      S u = in.size() > 2 ? in[2][o] : S(0);
      for (int64_t i = 0; i < inputs; ++i) u += in[0][row * inputs + i] * in[1][o * inputs + i];
      y.push_back(S(0.5) * u * (S(1) + tanh(S(0.7978845608028654) * (u + S(0.044715) * u * u * u))));
    }
  }
  return y;
}

// u stays within some 3: further down the tanh form in f32 or less gives 0 where gelu is not.
OpSample gelu_sample(const Shape& x, int64_t outputs, bool bias) {
  const double spread = 0.8 / std::sqrt(static_cast<double>(x.columns()));
  OpSample result{.label = fmt::format("{} to {}{}", x, outputs, bias ? "" : " without bias"),
                  .inputs = {normal("x", x), normal("weight", {outputs, x.columns()}, 0, spread)},
                  .run = [](const Tensors& in) { return linear_gelu(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); },
                  .reference = plain([](const auto& in) { return gelu_reference(in); }),
                  .backward_reads_result = true,  // the u that is kept, and du
                  .rounds_between_products = true};
  if (bias) result.inputs.push_back(vector_parameter(normal("bias", {outputs}, 0, 0.3)));
  const auto hidden = static_cast<double>(x.rows() * outputs), weights = static_cast<double>(x.columns() * outputs);
  result.flops = 2.0 * static_cast<double>(x.numel() * outputs) + 30 * hidden;
  result.bytes = 4.0 * (static_cast<double>(x.numel()) + 2 * hidden + weights);
  result.backward_bytes = 4.0 * (2 * static_cast<double>(x.numel()) + 4 * hidden + weights);
  result.backward_parameter_bytes = 4.0 * weights;
  return result;
}

}  // namespace

OP_CASE(linear) {
  op.sample(sample({1}, 1, true));
  op.sample(sample({2, 3, 5}, 7, true));
  op.sample(sample({33, 17}, 65, true));
  op.sample(sample({33, 16}, 9, false));
  op.sample(sample({130, 3}, 2, true));

  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  op.error<ShapeError>(
      "width",
      [=] {
        linear(make({2, 8}), make({4, 7}), Tensor());
      },
      "(N, 8)");
  op.error<ShapeError>(
      "weight of one dimension",
      [=] {
        linear(make({2, 8}), make({8}), Tensor());
      },
      "(N, 8)");
  op.error<ShapeError>(
      "bias",
      [=] {
        linear(make({2, 8}), make({4, 8}), make({8}));
      },
      "must be (4)");
  op.error<DTypeError>(
      "dtypes",
      [=] {
        linear(make({2, 8}), make({4, 8}, DType::f64), Tensor());
      },
      "weight is f64");

  op.bench(sample({768, 128}, 384, true));
  op.bench(sample({768, 128}, 512, true));
  op.bench(sample({768, 512}, 128, true));
  op.bench(sample({768, 128}, 65, false));
  for (const auto& [inputs, outputs] : {std::pair{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
    op.bench(sample({16384, inputs}, outputs, true), Device::cuda);
  }
  op.bench(sample({8192, 768}, 50304, false), Device::cuda);
}

OP_CASE(linear_gelu) {
  // On CUDA in bf16 one GEMM computes everything if the number of outputs is a multiple of 8.
  op.sample(gelu_sample({1}, 1, true));
  op.sample(gelu_sample({2, 3, 5}, 7, true));
  op.sample(gelu_sample({33, 17}, 65, true));
  op.sample(gelu_sample({33, 16}, 9, false));
  op.sample(gelu_sample({2, 5, 3}, 8, true));
  op.sample(gelu_sample({33, 17}, 24, false));
  op.sample(gelu_sample({19, 40}, 64, true));

  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  op.error<ShapeError>(
      "width",
      [=] {
        linear_gelu(make({2, 8}), make({4, 7}), Tensor());
      },
      "linear_gelu: weight has shape (4, 7), for x (2, 8) it must be (N, 8)");
  op.error<ShapeError>(
      "bias",
      [=] {
        linear_gelu(make({2, 8}), make({4, 8}), make({8}));
      },
      "must be (4)");
  op.error<DTypeError>(
      "dtypes",
      [=] {
        linear_gelu(make({2, 8}), make({4, 8}, DType::f64), Tensor());
      },
      "weight is f64");

  op.bench(gelu_sample({768, 128}, 512, true));
  op.bench(gelu_sample({4096, 128}, 512, true));
  op.bench(gelu_sample({4096, 768}, 3072, true));
  op.bench(gelu_sample({16384, 768}, 3072, true), Device::cuda);
}
