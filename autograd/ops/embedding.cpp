#include "autograd/ops/embedding.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check_embedding(const Tensor& table, const Tensor& tokens) {
  require<DTypeError>(is_floating(table.dtype()), "embedding: table is {}, it must be f32, bf16 or f64", table.dtype());
  require<DTypeError>(tokens.dtype() == DType::i32, "embedding: tokens are {}, they must be i32", tokens.dtype());
  require<ShapeError>(table.rank() == 2 && table.numel() > 0,
                      "embedding: table has shape {}, it must be (vocabulary, width), both at least 1", table.shape());
  require_one_device("embedding", {{"table", table}, {"tokens", tokens}});
}

void check_add_positions(const Tensor& x, const Tensor& positions) {
  require<DTypeError>(is_floating(x.dtype()), "add_positions: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<DTypeError>(positions.dtype() == x.dtype(), "add_positions: positions are {} but x is {}", positions.dtype(),
                      x.dtype());
  require<ShapeError>(x.rank() == 3, "add_positions: x has shape {}, it must be (batch, time, width)", x.shape());
  require<ShapeError>(
      positions.rank() == 2 && positions.shape()[0] >= x.shape()[1] && positions.shape()[1] == x.shape()[2],
      "add_positions: positions have shape {}, for x {} they must be (at least {}, {})", positions.shape(), x.shape(),
      x.shape()[1], x.shape()[2]);
  require_one_device("add_positions", {{"x", x}, {"positions", positions}});
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& tokens) {
  check_embedding(table, tokens);
  Output y(tokens.shape().with_appended(table.shape()[1]), table.dtype(), table.device());
  HEED_DISPATCH(table.device(), embedding_forward, {.y = y.ref(), .table = table, .tokens = tokens});
  return record("embedding", std::move(y), {table}, [tokens](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), embedding_backward,
                  {.dtable = gradients.sink(0, {.accumulation_dtype = true}), .dy = dy, .tokens = tokens});
  });
}

Tensor add_positions(const Tensor& x, const Tensor& positions) {
  check_add_positions(x, positions);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), add_positions_forward, {.y = y.ref(), .x = x, .positions = positions});
  return record("add_positions", std::move(y), {x, positions}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    HEED_DISPATCH(dy.device(), add_positions_backward,
                  {.dpositions = gradients.sink(1, {.accumulation_dtype = true}), .dy = dy});
  });
}

}  // namespace heed
