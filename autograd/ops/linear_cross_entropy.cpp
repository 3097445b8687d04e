#include "autograd/ops/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/device.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

constexpr const char* kName = "linear_cross_entropy";

// The columns of the logits in memory: the vocabulary, and on CUDA padding up to a multiple of 16 bytes, which linear
// and cross_entropy do not read.
int64_t padded_columns(int64_t vocab, DType dtype, Device device) {
  return device == Device::cuda ? round_up(vocab, 16 / size_bytes(dtype)) : vocab;
}

// The inputs of a call, as matrices, and the statistics that forward saves for backward.
struct Call {
  Tensor x = {}, weight = {}, targets = {};               // (rows, K), (V, K), (rows)
  Tensor row_max = {}, row_sum = {}, target_weight = {};  // as cross_entropy saves them
  Tensor losses = {};                                     // (rows), until their sum is computed
  CrossEntropyOptions options = {};
  double softcap = 0;
  int64_t chunk = 1;  // rows

  int64_t rows() const { return x.shape()[0]; }
  int64_t vocab() const { return weight.shape()[0]; }
  int64_t columns() const { return padded_columns(vocab(), x.dtype(), device()); }
  Device device() const { return x.device(); }
  DType exact() const { return accumulation_dtype(x.dtype()); }
};

void check(const Tensor& x, const Tensor& weight, const Tensor& targets, const LinearCrossEntropyOptions& options) {
  check_linear(kName, x, weight, Tensor());
  require_one_device(kName, {{"x", x}, {"targets", targets}});
  check_cross_entropy(kName, x.shape().with_last(weight.shape()[0]), x.dtype(), targets, options.cross_entropy);
  require<ValueError>(options.softcap >= 0 && std::isfinite(options.softcap),
                      "{}: softcap is {}, it must be above 0, or 0 for none", kName, options.softcap);
  if (!options.losses) return;
  require_one_device(kName, {{"x", x}, {"losses", options.losses}});
  require<DTypeError>(options.losses.dtype() == DType::f64, "{}: losses are {}, they must be f64", kName,
                      options.losses.dtype());
  require<ShapeError>(options.losses.shape() == targets.shape(),
                      "{}: losses have shape {}, it must be that of targets {}", kName, options.losses.shape(),
                      targets.shape());
}

// The bytes of a row of logits, and of their gradient unless it overwrites them.
int64_t row_bytes(int64_t columns, DType dtype, const LinearCrossEntropyOptions& options) {
  return columns * size_bytes(dtype) * (options.softcap > 0 ? 2 : 1);
}

int64_t rows_of_chunk(int64_t rows, int64_t row_bytes, int64_t chunk_bytes) {
  int64_t chunk = 1;
  while (2 * chunk * row_bytes <= chunk_bytes && chunk < rows) chunk *= 2;
  return std::clamp<int64_t>(rows, 1, chunk);
}

Call make_call(const Tensor& x, const Tensor& weight, const Tensor& targets, const LinearCrossEntropyOptions& given) {
  check(x, weight, targets, given);
  const int64_t rows = targets.numel();
  Call c{.x = x.slice(0, {rows, x.shape().columns()}),
         .weight = weight.detach(),
         .targets = targets.slice(0, {rows}),
         .options = given.cross_entropy,
         .softcap = given.softcap};
  if (c.options.vocab == 0) c.options.vocab = c.vocab();
  c.row_max = empty({rows}, c.exact(), c.device());
  c.row_sum = empty({rows}, c.exact(), c.device());
  c.losses =
      given.losses ? given.losses.slice(0, {rows}) : empty({rows}, DType::f64, c.device(), MemoryCategory::workspace);
  c.target_weight = empty({}, DType::f64, c.device());
  c.chunk = rows_of_chunk(rows, row_bytes(c.columns(), x.dtype(), given), given.chunk_bytes);
  // The targets keep their shape, because an error shows the position in it.
  HEED_DISPATCH(c.device(), cross_entropy_weight,
                {.weight = c.target_weight.ref(), .targets = targets, .options = c.options});
  return c;
}

// `count` rows of a matrix or a vector from row `first` on.
Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  const int64_t columns = tensor.rank() == 1 ? 1 : tensor.shape().columns();
  return tensor.slice(first * columns, tensor.rank() == 1 ? Shape{count} : Shape{count, columns});
}

// The same rows of the gradient of x, which may have more than two dimensions.
GradientSink rows_of(const GradientSink& dx, int64_t first, int64_t count) {
  if (!dx) return {};
  const int64_t columns = dx.ref.shape.columns();
  GradientSink part = dx;
  part.ref.data = static_cast<char*>(dx.ref.data) + first * columns * size_bytes(dx.ref.dtype);
  part.ref.shape = {count, columns};
  return part;
}

Tensor chunk_memory(const Call& c) {
  return empty({c.chunk, c.columns()}, c.x.dtype(), c.device(), MemoryCategory::workspace);
}

// Calls f(logits, first) for each chunk: the logits of the rows from `first` on, in memory that the next chunk reuses.
template <class F>
void for_each_chunk(const Call& c, F f) {
  const Tensor memory = chunk_memory(c);
  // softcap reads the padding, too.
  if (c.softcap > 0 && c.columns() > c.vocab()) fill_zero(memory.ref());
  int64_t first = 0;
  do {
    const int64_t count = std::min(c.chunk, c.rows() - first);
    const Tensor logits = rows_of(memory, 0, count);
    HEED_DISPATCH(c.device(), linear_forward, {.y = logits.ref(), .x = rows_of(c.x, first, count), .weight = c.weight});
    if (c.softcap > 0) {
      HEED_DISPATCH(c.device(), softcap_forward, {.y = {logits.ref()}, .x = logits, .scalar = c.softcap});
    }
    f(logits, first);
    first += count;
  } while (first < c.rows());
}

void compute_losses(const Call& c, const Tensor& logits, int64_t first) {
  const int64_t count = logits.shape()[0];
  HEED_DISPATCH(c.device(), cross_entropy_rows,
                {.losses = rows_of(c.losses, first, count).ref(),
                 .row_max = rows_of(c.row_max, first, count).ref(),
                 .row_sum = rows_of(c.row_sum, first, count).ref(),
                 .logits = logits,
                 .targets = rows_of(c.targets, first, count),
                 .options = c.options});
}

void add_losses(const Call& c, const TensorRef& loss) {
  HEED_DISPATCH(c.device(), cross_entropy_sum, {.loss = loss, .losses = c.losses, .weight = c.target_weight});
}

// Computes the gradients of a chunk. Without a softcap, dlogits overwrites the logits.
class Differentiation {
 public:
  Differentiation(const Call& call, const Tensor& dloss, Gradients& gradients)
      : c_(call), dloss_(dloss), dx_(gradients.sink(0)), dweight_(gradients.sink(1, {.accumulation_dtype = true})) {
    // The backward of softcap reads its result, so the gradient cannot overwrite the logits.
    if (c_.softcap > 0) memory_ = chunk_memory(c_);
  }

  void operator()(const Tensor& logits, int64_t first) {
    const int64_t count = logits.shape()[0];
    const Tensor dlogits = memory_ ? rows_of(memory_, 0, count) : logits;
    HEED_DISPATCH(c_.device(), cross_entropy_backward,
                  {.dlogits = {dlogits.ref()},
                   .dloss = dloss_,
                   .logits = logits,
                   .targets = rows_of(c_.targets, first, count),
                   .row_max = rows_of(c_.row_max, first, count),
                   .row_sum = rows_of(c_.row_sum, first, count),
                   .weight = c_.target_weight,
                   .options = c_.options});
    if (memory_) {
      HEED_DISPATCH(c_.device(), softcap_backward,
                    {.dx = {dlogits.ref()}, .dy = dlogits, .y = logits, .cap = c_.softcap});
    }
    HEED_DISPATCH(c_.device(), linear_backward,
                  {.dx = rows_of(dx_, first, count),
                   .dweight = dweight_,
                   .dy = dlogits,
                   .x = rows_of(c_.x, first, count),
                   .weight = c_.weight});
    dweight_.add = true;
  }

 private:
  const Call& c_;
  const Tensor& dloss_;
  GradientSink dx_, dweight_;
  Tensor memory_;
};

}  // namespace

int64_t linear_cross_entropy_chunk_bytes(int64_t rows, int64_t vocab, DType dtype, Device device,
                                         const LinearCrossEntropyOptions& options) {
  const int64_t bytes = row_bytes(padded_columns(vocab, dtype, device), dtype, options);
  return bytes * rows_of_chunk(rows, bytes, options.chunk_bytes);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options) {
  Call c = make_call(x, weight, targets, options);
  Output loss({}, c.exact(), c.device());
  for_each_chunk(c, [&](const Tensor& logits, int64_t first) { compute_losses(c, logits, first); });
  add_losses(c, loss.ref());
  c.losses = Tensor();
  return record(kName, std::move(loss), {x, weight}, [c = std::move(c)](const Tensor& dloss, Gradients& gradients) {
    for_each_chunk(c, Differentiation(c, dloss, gradients));
  });
}

Tensor linear_cross_entropy_and_backward(Tensor x, const Tensor& weight, const Tensor& targets,
                                         const LinearCrossEntropyOptions& options) {
  Call c = make_call(x, weight, targets, options);
  Output loss({}, c.exact(), c.device());
  const Tensor result = loss.saved();
  std::vector<Tensor> graph_inputs;  // an initializer list would keep a copy of x until backward has ended
  graph_inputs.push_back(std::move(x));
  graph_inputs.push_back(weight);
  return record_and_backward(kName, std::move(loss), std::move(graph_inputs),
                             [c = std::move(c), result](const Tensor& dloss, Gradients& gradients) {
                               Differentiation differentiate(c, dloss, gradients);
                               for_each_chunk(c, [&](const Tensor& logits, int64_t first) {
                                 compute_losses(c, logits, first);
                                 differentiate(logits, first);
                               });
                               add_losses(c, result.ref());
                             });
}

}  // namespace heed
