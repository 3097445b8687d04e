#include "autograd/ops/broadcast.hpp"

#include <algorithm>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

// The dimension `from_end` (1 is the last one); 1 where it is missing.
int64_t aligned(const Shape& shape, int from_end) { return from_end <= shape.rank() ? shape[-from_end] : 1; }

void check(const Tensor& x, const Shape& shape) {
  require<DTypeError>(is_floating(x.dtype()), "expand: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<ShapeError>(x.rank() <= shape.rank(), "expand: x has shape {}, more dimensions than {}", x.shape(), shape);
  for (int d = 1; d <= x.rank(); ++d) {
    const int64_t from = x.shape()[-d], to = shape[-d];
    require<ShapeError>(from == to || from == 1,
                        "expand: x has shape {}, for {} its dimension {} must be 1 or {}, not {}", x.shape(), shape, -d,
                        to, from);
  }
}

// What takes a tensor from one shape to the other, a group of adjacent repeated dimensions at a time, the last group
// first: view.outer is of the tensor before the step, view.inner of the tensor after it. At least one step: a copy.
std::vector<DimView> steps(const Shape& from, const Shape& to) {
  std::vector<DimView> views;
  int64_t inner = 1;
  for (int d = 1; d <= to.rank(); ++d) {
    const int64_t size = to[-d];
    if (aligned(from, d) == size) {
      inner *= size;
      continue;
    }
    DimView view{.n = size, .inner = inner};
    while (d < to.rank() && aligned(from, d + 1) == 1) view.n *= to[-++d];
    for (int before = d + 1; before <= from.rank(); ++before) view.outer *= from[-before];
    inner *= view.n;
    views.push_back(view);
  }
  if (views.empty()) views.push_back({.inner = inner});
  return views;
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b, const char* operation) {
  Shape shape;
  for (int d = std::max(a.rank(), b.rank()); d > 0; --d) {
    const int64_t in_a = aligned(a, d), in_b = aligned(b, d);
    require<ShapeError>(in_a == in_b || in_a == 1 || in_b == 1,
                        "{}: a has shape {} but b has shape {}: in dimension {} they have {} and {}, which must be "
                        "equal or one of them 1",
                        operation, a, b, -d, in_a, in_b);
    shape = shape.with_appended(in_a == 1 ? in_b : in_a);
  }
  return shape;
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check(x, shape);
  const std::vector<DimView> views = steps(x.shape(), shape);
  Output y(shape, x.dtype(), x.device());
  Tensor expanded = x;
  for (size_t i = 0; i < views.size(); ++i) {
    const DimView& view = views[i];
    const bool last = i + 1 == views.size();
    const Tensor next = last ? y.saved() : empty({view.outer, view.n, view.inner}, x.dtype(), x.device());
    HEED_DISPATCH(x.device(), expand_dim, {.y = {next.ref()}, .x = expanded, .view = view});
    expanded = next;
  }
  return record("expand", std::move(y), {x}, [views](const Tensor& dy, Gradients& gradients) {
    if (!gradients.needed(0)) return;
    // Sums of sums stay in the accumulation dtype, so that a bf16 gradient is rounded once.
    Tensor sums = dy;
    for (size_t i = views.size() - 1; i > 0; --i) {
      const Tensor next = empty({views[i].outer, views[i].inner}, accumulation_dtype(dy.dtype()), dy.device());
      HEED_DISPATCH(dy.device(), sum_dim, {.y = {next.ref()}, .x = sums, .view = views[i]});
      sums = next;
    }
    HEED_DISPATCH(dy.device(), sum_dim, {.y = gradients.sink(0), .x = sums, .view = views[0]});
  });
}

}  // namespace heed
