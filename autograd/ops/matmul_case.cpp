#include "autograd/ops/matmul.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in) {
  const MatmulSizes sizes(in[0].shape, in[1].shape);
  std::vector<S> y;
  for (int64_t row = 0; row < sizes.batches * sizes.m; ++row) {
    const int64_t matrix = row / sizes.m;
    for (int64_t j = 0; j < sizes.n; ++j) {
      S sum = 0;
      for (int64_t i = 0; i < sizes.k; ++i) {
        sum += in[0][row * sizes.k + i] * in[1][(matrix * sizes.k + i) * sizes.n + j];
      }
      y.push_back(sum);
    }
  }
  return y;
}

OpSample sample(const Shape& a, const Shape& b) {
  const MatmulSizes sizes(a, b);
  const auto results = static_cast<double>(sizes.batches * sizes.m * sizes.n);
  const double inputs = static_cast<double>(a.numel()) + static_cast<double>(b.numel());
  return {.label = fmt::format("{} x {}", a, b),
          .inputs = {normal("a", a), normal("b", b)},
          .run = [](const Tensors& in) { return matmul(in[0], in[1]); },
          .reference = plain([](const auto& in) { return reference(in); }),
          .flops = 2 * results * static_cast<double>(sizes.k),
          .bytes = sizeof(float) * (inputs + results),
          .backward_bytes = sizeof(float) * 2 * (inputs + results)};
}

}  // namespace

OP_CASE(matmul) {
  op.sample(sample({33, 17}, {17, 65}));
  op.sample(sample({2, 3, 5}, {5, 7}));
  op.sample(sample({2, 3, 5, 9}, {2, 3, 9, 4}));
  // Sums without terms.
  op.sample(sample({2, 3, 0}, {0, 4}));
  op.sample(sample({2, 3, 0}, {2, 0, 4}));

  const auto run = [](const Shape& a, const Shape& b, DType b_dtype = DType::f32) {
    return [=] { matmul(full(a, DType::f32, 1.0), full(b, b_dtype, 1.0)); };
  };
  op.error<ShapeError>("a vector on the left", run({4}, {4, 2}), "a has shape (4)");
  op.error<ShapeError>("its remedy", run({4}, {4, 2}), "reshape it to (1, 4)");
  op.error<ShapeError>("a vector on the right", run({2, 4}, {4}), "reshape it to (4, 1)");
  op.error<ShapeError>("inner dimension", run({2, 4}, {3, 5}), "for a (2, 4) it must be (4, N)");
  op.error<ShapeError>("leading dimensions", run({2, 3, 4}, {1, 4, 5}), "they are not broadcast");
  op.error<ShapeError>("leading dimensions of b alone", run({3, 4}, {2, 4, 5}), "b has shape (2, 4, 5)");
  op.error<DTypeError>("dtypes", run({2, 4}, {4, 2}, DType::f64), "a is f32 but b is f64");
  op.error<DTypeError>(
      "tokens",
      [] {
        matmul(from_tokens({1, 1}, {1}), from_tokens({1, 1}, {1}));
      },
      "a is i32");

  op.bench(sample({768, 512}, {512, 512}));
  op.bench(sample({48, 128, 64}, {48, 64, 128}));
  op.bench(sample({16384, 768}, {768, 3072}), Device::cuda);
  op.bench(sample({384, 512, 64}, {384, 64, 512}), Device::cuda);
}
