// CUDA emulation: vector types with CUDA's sizes and alignments.
#pragma once

// Two and four elements are aligned to their size, at most to 16 bytes; three are not.
#define HOSTCUDA_VECTOR(Element, name)                                                    \
  struct alignas(2 * sizeof(Element)) name##2 {                                           \
    Element x, y;                                                                         \
  };                                                                                      \
  struct name##3 {                                                                        \
    Element x, y, z;                                                                      \
  };                                                                                      \
  struct alignas(sizeof(Element) > 4 ? 16 : 4 * sizeof(Element)) name##4 {                \
    Element x, y, z, w;                                                                   \
  };                                                                                      \
  constexpr name##2 make_##name##2(Element x, Element y) { return {x, y}; }               \
  constexpr name##3 make_##name##3(Element x, Element y, Element z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(Element x, Element y, Element z, Element w) { return {x, y, z, w}; }

HOSTCUDA_VECTOR(unsigned char, uchar)
HOSTCUDA_VECTOR(unsigned short, ushort)
HOSTCUDA_VECTOR(int, int)
HOSTCUDA_VECTOR(unsigned, uint)
HOSTCUDA_VECTOR(long long, longlong)
HOSTCUDA_VECTOR(unsigned long long, ulonglong)
HOSTCUDA_VECTOR(float, float)
HOSTCUDA_VECTOR(double, double)
#undef HOSTCUDA_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) : x(x_size), y(y_size), z(z_size) {}
  constexpr dim3(uint3 size) : x(size.x), y(size.y), z(size.z) {}
};
