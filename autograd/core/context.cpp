#include "autograd/core/context.hpp"

#include "autograd/core/cuda_backend.hpp"

namespace heed {

Context& context(Device device) {
  static Context cpu(Device::cpu), cuda(Device::cuda);
  return device == Device::cpu ? cpu : cuda;
}

void synchronize(Device device) {
  if (device == Device::cuda) cuda::synchronize();
}

}  // namespace heed
