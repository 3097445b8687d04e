// The product, then gelu in a pass of its own. By blocks of 64 to 1024 rows, which gelu would find in a cache still, it
// was no faster: a product in parts takes longer.
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/ops/linear_gelu.hpp"

namespace heed::cpu {

void linear_gelu_forward(Context& context, const LinearGeluForward& p) {
  linear_forward(context, {.y = p.u, .x = p.x, .weight = p.weight, .bias = p.bias});
  gelu_forward(context, {.y = p.y, .x = p.u});
}

}  // namespace heed::cpu
