#include "autograd/ops/transpose.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

// From the definition: the digits of each index of x, two of them exchanged, are the index of y.
template <class S>
std::vector<S> reference(const ReferenceInput<S>& x, int dim0, int dim1) {
  const int rank = x.shape.rank();
  dim0 = dim0 < 0 ? dim0 + rank : dim0;
  dim1 = dim1 < 0 ? dim1 + rank : dim1;
  std::vector<S> y(x.values.size());
  for (int64_t from = 0; from < x.shape.numel(); ++from) {
    std::vector<int64_t> index(static_cast<size_t>(rank)), sizes = index;
    for (int64_t i = rank - 1, rest = from; i >= 0; rest /= x.shape[static_cast<int>(i--)]) {
      sizes[static_cast<size_t>(i)] = x.shape[static_cast<int>(i)];
      index[static_cast<size_t>(i)] = rest % x.shape[static_cast<int>(i)];
    }
    std::swap(index[static_cast<size_t>(dim0)], index[static_cast<size_t>(dim1)]);
    std::swap(sizes[static_cast<size_t>(dim0)], sizes[static_cast<size_t>(dim1)]);
    int64_t to = 0;
    for (size_t i = 0; i < index.size(); ++i) to = to * sizes[i] + index[i];
    y[static_cast<size_t>(to)] = x[from];
  }
  return y;
}

OpSample sample(const Shape& shape, int dim0, int dim1) {
  const double bytes = 2.0 * static_cast<double>(shape.numel()) * sizeof(float);
  return {.label = fmt::format("{} dimensions {} and {}", shape, dim0, dim1),
          .inputs = {normal("x", shape)},
          .run = [=](const Tensors& in) { return transpose(in[0], dim0, dim1); },
          .reference = plain([=](const auto& in) { return reference(in[0], dim0, dim1); }),
          .bytes = bytes,
          .backward_bytes = bytes};
}

}  // namespace

OP_CASE(transpose) {
  op.sample(sample({5}, 0, -1));
  op.sample(sample({70, 130}, 0, 1));  // whole tiles and parts of them
  op.sample(sample({3, 2, 65}, -1, 1));
  op.sample(sample({2, 5, 3, 4}, 1, 2));  // runs of 4
  op.sample(sample({2, 34, 3, 35}, 1, 3));
  op.sample(sample({2, 3, 4, 5, 6}, -2, 0));
  op.sample(sample({2, 3, 4}, 1, 1));
  op.sample(sample({2, 0, 4}, 0, 2));

  const auto run = [](const Shape& shape, int dim0, int dim1) {
    return [=] { transpose(full(shape, DType::f32, 1.0), dim0, dim1); };
  };
  op.error<ShapeError>("no such dimension", run({2, 3}, 0, 2), "it has no dimension 2: -2 to 1 are allowed");
  op.error<ShapeError>("too far from the end", run({2, 3}, -3, 0), "it has no dimension -3");
  op.error<ShapeError>("a scalar", run({}, 0, 0), "transpose: x is a scalar");
  op.error<DTypeError>(
      "tokens",
      [] {
        transpose(from_tokens({1, 1}, {1}), 0, 1);
      },
      "transpose: x is i32");

  op.bench(sample({4096, 1024}, 0, 1));
  op.bench(sample({16, 128, 8, 64}, 1, 2));
  op.bench(sample({16384, 4096}, 0, 1), Device::cuda);
  op.bench(sample({32, 512, 12, 64}, 1, 2), Device::cuda);
}
