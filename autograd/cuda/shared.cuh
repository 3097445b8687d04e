// Dynamic shared memory: auto& tiles = dynamic_shared<Tiles>(); the launch must request sizeof(Tiles) bytes.
#pragma once

#include <cuda_runtime.h>

namespace heed::cuda {

template <class T>
__device__ __forceinline__ T& dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return *reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return *static_cast<T*>(hostcuda::dynamic_shared());
#endif
}

}  // namespace heed::cuda
