#include "autograd/ops/rope.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& x, const Tensor& table, const RopeOptions& o) {
  require<DTypeError>(is_floating(x.dtype()), "rope: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<DTypeError>(table.dtype() == accumulation_dtype(x.dtype()), "rope: table is {}, for x in {} it must be {}",
                      table.dtype(), x.dtype(), accumulation_dtype(x.dtype()));
  require_one_device("rope", {{"x", x}, {"table", table}});
  require<ValueError>(o.num_heads >= 1 && o.rotated_heads >= 0 && o.rotated_heads <= o.num_heads,
                      "rope: {} of {} heads are rotated, it must be 0 (all) to the number of heads, at least 1",
                      o.rotated_heads, o.num_heads);
  require<ShapeError>(x.rank() == 3 && x.shape().columns() % o.num_heads == 0,
                      "rope: x has shape {}, it must be (B, T, {} heads * head size)", x.shape(), o.num_heads);
  const int64_t head_size = x.shape().columns() / o.num_heads;
  require<ShapeError>(table.rank() == 2 && table.shape().columns() % 2 == 0 && table.shape().columns() <= head_size,
                      "rope: table has shape {}, it must be (positions, R) with an even R of at most the head size {}",
                      table.shape(), head_size);
  const int64_t positions = table.shape()[0], rows = x.shape()[1];
  require<ValueError>(o.first_position >= 0 && rows <= positions && o.first_position <= positions - rows,
                      "rope: x has {} positions from {} on, the table ends at {}", rows, o.first_position, positions);
}

}  // namespace

Tensor rope(const Tensor& x, const Tensor& table, const RopeOptions& given) {
  check(x, table, given);
  RopeOptions options = given;
  if (options.rotated_heads == 0) options.rotated_heads = options.num_heads;
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), apply_rope, {.y = {y.ref()}, .x = x, .table = table, .options = options});
  return record("rope", std::move(y), {x}, [table, options](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(
        dy.device(), apply_rope,
        {.y = gradients.sink(0, {.reuse = &dy}), .x = dy, .table = table, .options = options, .inverse = true});
  });
}

}  // namespace heed
