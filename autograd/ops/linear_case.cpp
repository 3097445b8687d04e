#include "autograd/ops/linear.hpp"

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
