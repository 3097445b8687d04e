#include "autograd/ops/reduce.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

void declare(OpCase& op, Tensor (*run)(const Tensor&), bool divide) {
  const auto make = [&](const Shape& shape) {
    return OpSample{.label = shape.text(),
                    .inputs = {normal("x", shape, 0.5)},
                    .run = [run](const Tensors& in) { return run(in[0]); },
                    .reference = plain([divide](const auto& in) {
                      using S = std::decay_t<decltype(in[0].values[0])>;
                      S sum = 0;
                      for (const S& v : in[0].values) sum += v;
                      return std::vector<S>{divide ? sum / S(in[0].shape.numel()) : sum};
                    }),
                    .flops = static_cast<double>(shape.numel()),
                    .bytes = static_cast<double>(shape.numel()) * sizeof(float),
                    .backward_bytes = static_cast<double>(shape.numel()) * sizeof(float)};
  };
  // One element, a part of a vector, whole blocks of the kernel and some more.
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{2, 3, 65}, Shape{4096}, Shape{3, 4099}}) {
    op.sample(make(shape));
  }
  op.bench(make({768, 512}));
  op.bench(make({16384, 3072}), Device::cuda);
  op.error<DTypeError>(
      "tokens", [run] { run(from_tokens({1}, {1})); }, op.name + ": x is i32");
}

// Sums over one dimension, of `size` elements with `inner` elements between them.
template <class S>
std::vector<S> sums(const ReferenceInput<S>& x, int64_t size, int64_t inner) {
  std::vector<S> y;
  for (int64_t i = 0; i < x.shape.numel() / size; ++i) {
    S sum = 0;
    for (int64_t j = 0; j < size; ++j) sum += x[(i / inner * size + j) * inner + i % inner];
    y.push_back(sum);
  }
  return y;
}

void declare_dim(OpCase& op, Tensor (*run)(const Tensor&, int, bool), bool divide) {
  const auto make = [&](const Shape& shape, int dim, bool keepdim, int64_t inner) {
    return OpSample{.label = fmt::format("{} dim {}{}", shape, dim, keepdim ? " kept" : ""),
                    .inputs = {normal("x", shape, 0.5)},
                    .run = [run, dim, keepdim](const Tensors& in) { return run(in[0], dim, keepdim); },
                    .reference = plain([dim, inner, divide](const auto& in) {
                      using S = std::decay_t<decltype(in[0].values[0])>;
                      const int64_t size = in[0].shape[dim];
                      std::vector<S> y = sums(in[0], size, inner);
                      for (S& v : y) v = divide ? v / S(size) : v;
                      return y;
                    }),
                    .check_gradients_by_differences = shape.numel() < 10'000,
                    .flops = static_cast<double>(shape.numel()),
                    .bytes = static_cast<double>(shape.numel()) * sizeof(float),
                    .backward_bytes = static_cast<double>(shape.numel()) * sizeof(float)};
  };
  op.sample(make({7}, 0, false, 1));
  op.sample(make({3, 5}, 0, false, 5));
  op.sample(make({3, 65}, -1, true, 1));
  op.sample(make({2, 3, 4, 5}, 1, false, 20));
  op.sample(make({2, 1, 66}, -2, true, 66));
  // More elements in a sum than one chunk has on CUDA, and more sums than one CPU thread takes.
  op.sample(make({3, 601, 33}, 1, false, 33));
  op.sample(make({3, 601}, 1, false, 1));
  op.bench(make({768, 512}, 0, false, 512));
  op.bench(make({16384, 3072}, 0, false, 3072), Device::cuda);
  op.bench(make({16384, 3072}, 1, false, 1), Device::cuda);

  op.error<ShapeError>(
      "no such dimension",
      [run] {
        run(zeros({2, 3}, DType::f32), 2, false);
      },
      op.name + ": x has shape (2, 3), it has no dimension 2: -2 to 1 are allowed");
  op.error<ShapeError>(
      "no dimension of a scalar", [run] { run(zeros({}, DType::f32), -1, false); },
      op.name + ": x is a scalar, it has no dimensions");
}

}  // namespace

OP_CASE(sum) {
  declare(op, sum, false);
  declare_dim(op, sum, false);
}

OP_CASE(mean) {
  declare(op, mean, true);
  declare_dim(op, mean, true);
  op.error<ShapeError>(
      "no elements",
      [] {
        mean(zeros({0, 3}, DType::f32));
      },
      "mean: x has shape (0, 3)");
  op.error<ShapeError>(
      "no elements in the dimension",
      [] {
        mean(zeros({3, 0}, DType::f32), -1);
      },
      "mean: x has shape (3, 0), no elements (dimension 1)");
}
