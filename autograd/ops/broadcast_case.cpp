#include "autograd/ops/broadcast.hpp"

#include "autograd/check/op_case.hpp"
#include "autograd/ops/elementwise.hpp"

using namespace heed;

namespace {

// The elements of x at the positions that `shape` repeats them to.
template <class S>
std::vector<S> repeated(const ReferenceInput<S>& x, const Shape& shape) {
  std::vector<S> y;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    for (int d = 1; d <= x.shape.rank(); ++d) {
      const int64_t index = rest % shape[-d];
      rest /= shape[-d];
      if (x.shape[-d] > 1) from += index * stride;
      stride *= x.shape[-d];
    }
    y.push_back(x[from]);
  }
  return y;
}

OpSample sample(const Shape& from, const Shape& to, bool differences = true) {
  const auto bytes = static_cast<double>(from.numel() + to.numel()) * sizeof(float);
  return {.label = fmt::format("{} to {}", from, to),
          .inputs = {normal("x", from, 0.5)},
          .run = [to](const Tensors& in) { return expand(in[0], to); },
          .reference = plain([to](const auto& in) { return repeated(in[0], to); }),
          .check_gradients_by_differences = differences,
          .flops = static_cast<double>(to.numel()),
          .bytes = bytes,
          .backward_bytes = bytes};
}

// Both inputs of an addition are expanded.
OpSample outer_sum() {
  return {.label = "outer sum",
          .inputs = {normal("a", {3, 1}), normal("b", {17})},
          .run = [](const Tensors& in) { return add(in[0], in[1]); },
          .reference = plain([](const auto& in) {
            auto a = repeated(in[0], {3, 17});
            const auto b = repeated(in[1], {3, 17});
            for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] + b[i];
            return a;
          })};
}

}  // namespace

OP_CASE(expand) {
  // Dimensions that are repeated in front, at the end, in the middle, several of them, and none.
  op.sample(sample({}, {2, 3}));
  op.sample(sample({5}, {5}));
  op.sample(sample({64}, {3, 2, 64}));
  op.sample(sample({7, 1}, {7, 8}));
  op.sample(sample({2, 1, 9}, {2, 5, 9}));
  op.sample(sample({1, 3, 1}, {4, 3, 5}));
  op.sample(sample({3, 1, 2, 1}, {2, 3, 4, 2, 5}));
  op.sample(sample({0, 1}, {0, 3}));
  op.sample(outer_sum());
  // Sums of more elements than one chunk has on CUDA, and more of them than one CPU thread takes.
  op.sample(sample({3, 1, 33}, {3, 601, 33}, false));
  op.sample(sample({3, 1}, {3, 601}, false));
  op.bench(sample({512}, {768, 512}));
  op.bench(sample({3072}, {16384, 3072}), Device::cuda);

  const auto make = [](const Shape& shape) { return full(shape, DType::f32, 1.0); };
  op.error<ShapeError>(
      "another size",
      [=] {
        expand(make({2, 3}), {4, 3});
      },
      "expand: x has shape (2, 3), for (4, 3) its dimension -2 must be 1 or 4, not 2");
  op.error<ShapeError>(
      "fewer dimensions",
      [=] {
        expand(make({1, 3}), {3});
      },
      "expand: x has shape (1, 3), more dimensions than (3)");
  op.error<DTypeError>(
      "tokens", [] { expand(from_tokens({1}, {1}), {2}); }, "expand: x is i32");
}
