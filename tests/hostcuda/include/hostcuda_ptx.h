// CUDA emulation: PTX instructions as functions. Which lane holds which element is what the PTX ISA 9.2 says
// ("Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix"); CUTLASS's MMA_Traits<SM80_16x8x16_...>
// and Copy_Traits<SM75_U32x4_LDSM_N>, <SM75_U16x8_LDSM_T> say the same.
#pragma once

#include <hostcuda_device.h>

namespace hostcuda::ptx {

// Four 8x8 matrices of 16-bit elements in shared memory. Lane i gives the address of row i % 8 of matrix i / 8, and
// receives in registers[j] the elements 2 * (i % 4) and the next of row i / 4 of matrix j; transposed: of column i / 4.
void ldmatrix_x4(unsigned (&registers)[4], const void* row, Site site = Site::current());
void ldmatrix_x4_trans(unsigned (&registers)[4], const void* row, Site site = Site::current());

// d += a * b: a 16x16 by rows and b 16x8 by columns in bf16, d 16x8 in f32. With g = lane / 4 and t = 2 * (lane % 4):
//   a[j] holds columns t, t + 1 (+ 8 for j >= 2) of row g (+ 8 for odd j)
//   b[j] holds rows t, t + 1 (+ 8 for j = 1) of column g
//   d[j] holds column t + j % 2 of row g (+ 8 for j >= 2)
void mma_bf16_16816(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site = Site::current());

// Copies 16 bytes, or zeros where !valid. They land at the wait, and until then the target holds NaN.
void cp_async_16(void* shared, const void* global, bool valid = true, Site site = Site::current());
void cp_async_commit();
// Waits until at most `pending` of the committed groups of this thread are in flight.
void cp_async_wait(int pending);
template <int Pending>
void cp_async_wait() {
  cp_async_wait(Pending);
}

}  // namespace hostcuda::ptx
