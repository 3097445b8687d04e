#include "autograd/ops/embedding.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

template <class S>
std::vector<S> look_up(const ReferenceInputs<S>& in) {
  const int64_t width = in[0].shape[1];
  std::vector<S> y;
  for (const int32_t token : in[1].tokens) {
    for (int64_t j = 0; j < width; ++j) y.push_back(in[0][token * width + j]);
  }
  return y;
}

template <class S>
std::vector<S> add_rows(const ReferenceInputs<S>& in) {
  const int64_t times = in[0].shape[1], width = in[0].shape[2];
  std::vector<S> y;
  for (int64_t i = 0; i < in[0].shape.numel(); ++i)
    y.push_back(in[0][i] + in[1][i / width % times * width + i % width]);
  return y;
}

OpSample embedding_sample(const Shape& table, const Shape& positions) {
  return {.label = fmt::format("table {} tokens {}", table, positions),
          .inputs = {normal("table", table), tokens("tokens", positions, static_cast<int32_t>(table[0]))},
          .run = [](const Tensors& in) { return embedding(in[0], in[1]); },
          .reference = plain([](const auto& in) { return look_up(in); }),
          .bytes = 2.0 * static_cast<double>(positions.numel() * table[1]) * sizeof(float),
          .backward_bytes = static_cast<double>(positions.numel() * table[1]) * sizeof(float),
          .backward_parameter_bytes = static_cast<double>(table.numel()) * sizeof(float)};
}

OpSample positions_sample(const Shape& x, int64_t rows) {
  return {
      .label = fmt::format("{} of {}", x, rows),
      .inputs = {normal("x", x), normal("positions", {rows, x[2]})},
      .run = [](const Tensors& in) { return add_positions(in[0], in[1]); },
      .reference = plain([](const auto& in) { return add_rows(in); }),
      .bytes = 2.0 * static_cast<double>(x.numel()) * sizeof(float),
      .backward_bytes = 3.0 * static_cast<double>(x.numel()) * sizeof(float)};  // a leaf gets a copy of the gradient
}

Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); }

}  // namespace

OP_CASE(embedding) {
  op.sample(embedding_sample({1, 1}, {}));
  op.sample(embedding_sample({5, 3}, {7}));
  op.sample(embedding_sample({65, 33}, {2, 9}));
  op.sample(embedding_sample({7, 130}, {3, 2, 40}));
  op.sample(embedding_sample({300, 64}, {4, 5}));
  // Tokens that occur hundreds of times, and more of them than CUDA sorts in one piece.
  op.sample(embedding_sample({2, 4}, {1100}));
  op.sample(embedding_sample({260, 3}, {2, 1100}));

  op.error<ValueError>(
      "token too large",
      [] {
        embedding(ones({65, 4}), from_tokens({2, 2}, {0, 64, 3, 65}));
      },
      "embedding: token 65 at position (1, 1), it must be from 0 to 64 (a vocabulary of 65)");
  op.error<ValueError>(
      "negative token",
      [] {
        embedding(ones({65, 4}), from_tokens({3}, {0, -1, 65}));
      },
      "-1 at position (1)");
  op.error<DTypeError>(
      "tokens that are no tokens",
      [] {
        embedding(ones({65, 4}), ones({3}));
      },
      "tokens are f32");
  op.error<DTypeError>(
      "table of tokens",
      [] {
        embedding(from_tokens({1, 1}, {0}), from_tokens({1}, {0}));
      },
      "table is i32");
  op.error<ShapeError>(
      "table of one dimension", [] { embedding(ones({65}), from_tokens({1}, {0})); }, "table has shape (65)");

  op.bench(embedding_sample({65, 128}, {12, 64}));
  op.bench(embedding_sample({50257, 768}, {4, 512}));
  op.bench(embedding_sample({65, 384}, {64, 256}), Device::cuda);
  op.bench(embedding_sample({50304, 768}, {16, 1024}), Device::cuda);
}

OP_CASE(add_positions) {
  op.sample(positions_sample({1, 1, 1}, 1));
  op.sample(positions_sample({3, 5, 7}, 5));
  op.sample(positions_sample({2, 9, 33}, 12));
  op.sample(positions_sample({40, 3, 130}, 4));

  op.error<ShapeError>(
      "x of two dimensions",
      [] {
        add_positions(ones({3, 4}), ones({3, 4}));
      },
      "x has shape (3, 4)");
  op.error<ShapeError>(
      "too few positions",
      [] {
        add_positions(ones({2, 9, 4}), ones({8, 4}));
      },
      "(at least 9, 4)");
  op.error<ShapeError>(
      "another width",
      [] {
        add_positions(ones({2, 3, 4}), ones({3, 5}));
      },
      "(3, 5)");
  op.error<DTypeError>(
      "dtypes",
      [] {
        add_positions(ones({2, 3, 4}), ones({3, 4}, DType::f64));
      },
      "positions are f64");
  op.error<DTypeError>(
      "tokens",
      [] {
        add_positions(from_tokens({1, 1, 1}, {0}), ones({1, 1}));
      },
      "x is i32");

  op.bench(positions_sample({12, 64, 128}, 64));
  op.bench(positions_sample({16, 1024, 768}, 1024), Device::cuda);
}
