// Warp-level instructions for tensor cores and asynchronous copies (sm_80 and later), as functions.
//
// Fragments of m16n8k16 in lane l, with g = l / 4 and p = l % 4 * 2:
//   A operand     rows g and g + 8, columns p, p + 1 (first two registers) and p + 8, p + 9
//   B operand     column g, rows p, p + 1 and p + 8, p + 9
//   accumulator   row g, columns p, p + 1, and the same columns of row g + 8
// So an accumulator that is rounded to bf16 has the layout of the A operand of a following GEMM.
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16", ldmatrix and cp.async.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifndef __CUDACC__
#include <hostcuda_ptx.h>
#endif

namespace heed::cuda {

#ifndef __CUDACC__
using namespace hostcuda::ptx;
#else

__device__ __forceinline__ unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

// Loads four 8 x 8 matrices of bf16. Lane l passes the address of row l % 8 of matrix l / 8, 16 bytes of shared memory.
// Register i receives two adjacent elements of matrix i: row l / 4, columns l % 4 * 2 and the next; _trans: of the
// transposed matrix.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// sum += left * right: A operand 16 x 16, B operand 16 x 8, bf16, accumulated in f32.
__device__ __forceinline__ void mma_bf16_16816(float (&sum)[4], const unsigned (&left)[4], const unsigned (&right)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// Asynchronous copy of 16 bytes from global to shared memory; writes zeros and reads nothing if !valid. The data are
// visible after cp_async_wait().
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
// Closes a group of copies; cp_async_wait() waits for all but the last kGroups groups.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kGroups>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroups) : "memory");
}

#endif

// Two adjacent elements as bf16, the first in the low half.
__device__ __forceinline__ unsigned pack_bf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const unsigned*>(&pair);
}

}  // namespace heed::cuda
