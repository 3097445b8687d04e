// CUDA emulation, check build: included before everything else. Compilers leave memcpy and its like to the
// runtime of the thread sanitizer, which is not linked; under these names the engine sees the copies that a kernel asks
// for and those that the compiler makes of assignments.
#pragma once

extern "C" {
void* memcpy(void* to, const void* from, __SIZE_TYPE__ bytes) noexcept __asm__("__tsan_memcpy");
void* memmove(void* to, const void* from, __SIZE_TYPE__ bytes) noexcept __asm__("__tsan_memmove");
void* memset(void* to, int value, __SIZE_TYPE__ bytes) noexcept __asm__("__tsan_memset");
}
