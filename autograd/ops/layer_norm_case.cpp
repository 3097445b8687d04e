#include "autograd/ops/layer_norm.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

constexpr double kEps = 1e-5;

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in) {
  using std::sqrt;
  const int64_t rows = in[0].shape.rows(), columns = in[0].shape.columns();
  std::vector<S> y;
  for (int64_t row = 0; row < rows; ++row) {
    const S* x = &in[0].values[static_cast<size_t>(row * columns)];
    S sum = 0, squares = 0;
    for (int64_t j = 0; j < columns; ++j) sum += x[j];
    const S mean = sum / S(columns);
    for (int64_t j = 0; j < columns; ++j) squares += (x[j] - mean) * (x[j] - mean);
    const S rstd = S(1) / sqrt(squares / S(columns) + S(kEps));
    for (int64_t j = 0; j < columns; ++j) {
      const S normalized = (x[j] - mean) * rstd;
      const S scaled = in.size() > 1 ? normalized * in[1][j] : normalized;
      y.push_back(in.size() > 2 ? scaled + in[2][j] : scaled);
    }
  }
  return y;
}

OpSample sample(const Shape& shape, bool differences = true) {
  const Shape columns{shape.columns()};
  const double bytes = static_cast<double>(shape.numel()) * sizeof(float);
  return {.label = shape.text(),
          .inputs = {normal("x", shape, 0.5, 2), vector_parameter(normal("weight", columns, 1, 0.3)),
                     vector_parameter(normal("bias", columns))},
          .run = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], kEps); },
          .reference = plain([](const auto& in) { return reference(in); }),
          .check_gradients_by_differences = differences,
          .flops = 8.0 * static_cast<double>(shape.numel()),
          .bytes = 2 * bytes,
          .backward_bytes = 3 * bytes};
}

}  // namespace

OP_CASE(layer_norm) {
  for (const Shape& shape : {Shape{4}, Shape{3, 3}, Shape{2, 3, 65}, Shape{70, 33}, Shape{5, 128}, Shape{2, 260}}) {
    op.sample(sample(shape));
  }
  // Widths that CUDA divides over more and more threads, with and without whole vectors of 16 bytes; and more rows
  // than thread groups run at a time.
  for (const int64_t width : {510, 1000, 1025, 2048, 4001, 8192, 8197, 8200}) op.sample(sample({2, width}, false));
  for (const Shape& shape : {Shape{530, 3}, Shape{67, 530}}) op.sample(sample(shape, false));
  op.sample({.label = "without bias",
             .inputs = {normal("x", {6, 17}), vector_parameter(normal("weight", {17}, 1, 0.3))},
             .run = [](const Tensors& in) { return layer_norm(in[0], in[1], Tensor(), kEps); },
             .reference = plain([](const auto& in) { return reference(in); })});

  for (const int64_t width : {17, 8200}) {
    op.sample({.label = fmt::format("without weight and bias, {}", width),
               .inputs = {normal("x", {6, width})},
               .run = [](const Tensors& in) { return layer_norm(in[0], Tensor(), Tensor(), kEps); },
               .reference = plain([](const auto& in) { return reference(in); }),
               .check_gradients_by_differences = width < 100});
  }

  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  op.error<ShapeError>(
      "weight of another width",
      [=] {
        layer_norm(make({2, 8}), make({7}), Tensor());
      },
      "(7)");
  op.error<ShapeError>(
      "a scalar", [=] { layer_norm(make({}), make({1}), Tensor()); }, "layer_norm: x has shape ()");
  op.error<DTypeError>(
      "mixed dtypes",
      [=] {
        layer_norm(make({2, 8}), make({8}, DType::f64), Tensor());
      },
      "f64");
  op.error<ValueError>(
      "eps of 0",
      [=] {
        layer_norm(make({2, 8}), make({8}), Tensor(), 0.0);
      },
      "eps is 0");

  op.bench(sample({768, 128}));
  op.bench(sample({16384, 384}), Device::cuda);
  op.bench(sample({16384, 768}), Device::cuda);
  op.bench(sample({16384, 4096}), Device::cuda);
}
