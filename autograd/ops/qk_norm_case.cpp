#include "autograd/ops/qk_norm.hpp"

#include "autograd/check/op_case.hpp"

using namespace heed;

namespace {

constexpr double kEps = 1e-5;

// in: qkv, or qkv and both weights.
template <class S>
std::vector<S> reference(const ReferenceInputs<S>& in, const QkNormOptions& options) {
  using std::sqrt;
  const int64_t heads = options.num_heads + 2 * options.num_kv_heads;
  const int64_t columns = in[0].shape.columns(), size = columns / heads;
  std::vector<S> y;
  for (int64_t head = 0; head < in[0].shape.rows() * heads; ++head) {
    const S* x = &in[0].values[static_cast<size_t>(head * size)];
    const bool is_query = head % heads < options.num_heads, is_value = head % heads >= heads - options.num_kv_heads;
    if (is_value) {
      y.insert(y.end(), x, x + size);
      continue;
    }
    S squares = 0;
    for (int64_t j = 0; j < size; ++j) squares += x[j] * x[j];
    const S rstd = S(1) / sqrt(squares / S(size) + S(options.eps));
    for (int64_t j = 0; j < size; ++j) {
      y.push_back(in.size() > 1 ? x[j] * rstd * in[is_query ? 1 : 2][j] : x[j] * rstd);
    }
  }
  return y;
}

// rows of qkv with heads of `size` elements
OpSample sample(int64_t rows, int64_t num_heads, int64_t num_kv_heads, int64_t size, bool has_weights = true,
                bool differences = true) {
  const QkNormOptions options{.num_heads = num_heads, .num_kv_heads = num_kv_heads, .eps = kEps};
  const Shape shape{rows, (num_heads + 2 * num_kv_heads) * size};
  const double bytes = static_cast<double>(shape.numel()) * sizeof(float);
  std::vector<SampleInput> inputs{normal("qkv", shape, 0.5, 2)};
  if (has_weights) {
    inputs.push_back(vector_parameter(normal("q_weight", {size}, 1, 0.3)));
    inputs.push_back(vector_parameter(normal("k_weight", {size}, 1, 0.3)));
  }
  return {.label = fmt::format("{} rows, {} + {} heads of {}{}", rows, num_heads, num_kv_heads, size,
                               has_weights ? "" : ", without weights"),
          .inputs = std::move(inputs),
          .run =
              [=](const Tensors& in) {
                return has_weights ? qk_norm(in[0], in[1], in[2], options)
                                   : qk_norm(in[0], Tensor(), Tensor(), options);
              },
          .reference = plain([=](const auto& in) { return reference(in, options); }),
          .check_gradients_by_differences = differences,
          .flops = 5.0 * static_cast<double>(shape.numel()),
          .bytes = 2 * bytes,
          .backward_bytes = 3 * bytes};
}

}  // namespace

OP_CASE(qk_norm) {
  op.sample(sample(1, 1, 1, 4));
  op.sample(sample(3, 4, 2, 5));
  op.sample(sample(70, 3, 1, 3));
  op.sample(sample(6, 2, 2, 16));
  op.sample(sample(5, 4, 2, 8, false));
  op.sample(sample(67, 6, 2, 33, true, false));
  // Heads that CUDA divides over a thread block, and longer ones than it keeps in registers.
  op.sample(sample(2, 1, 1, 1000, true, false));
  op.sample(sample(2, 1, 1, 8200, true, false));

  const auto make = [](const Shape& shape, DType dtype = DType::f32) { return full(shape, dtype, 1.0); };
  const QkNormOptions options{.num_heads = 2, .num_kv_heads = 1};
  op.error<ShapeError>(
      "columns that are no multiple of the heads",
      [=] {
        qk_norm(make({2, 9}), Tensor(), Tensor(), options);
      },
      "must be a multiple of 4");
  op.error<ShapeError>(
      "weight of another size",
      [=] {
        qk_norm(make({2, 12}), make({3}), make({4}), options);
      },
      "k_weight has shape (4)");
  op.error<DTypeError>(
      "mixed dtypes",
      [=] {
        qk_norm(make({2, 12}), make({3}, DType::f64), Tensor(), options);
      },
      "f64");
  op.error<ValueError>(
      "no heads",
      [=] {
        qk_norm(make({2, 12}), Tensor(), Tensor(), {.num_heads = 0});
      },
      "num_heads is 0");
  op.error<ValueError>(
      "eps of 0",
      [=] {
        qk_norm(make({2, 12}), Tensor(), Tensor(), {.num_heads = 2, .num_kv_heads = 1, .eps = 0.0});
      },
      "eps is 0");

  op.bench(sample(768, 4, 4, 32));
  op.bench(sample(16384, 12, 12, 64), Device::cuda);
}
