// ldmatrix and mma: the last lane to arrive computes for the warp.
#include <hostcuda_ptx.h>

#include <bit>
#include <cstring>

#include "src/access.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"

namespace hostcuda::ptx {
namespace {

struct LoadLane {
  unsigned* registers;
  const unsigned char* row;
  Thread* thread;
  const void* place;
};

template <bool kTransposed>
void lead_load(Warp&, const WarpOperation& operation) {
  uint16_t matrices[4][8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& request = *static_cast<const LoadLane*>(operation.arguments[static_cast<size_t>(lane)]);
    check_access(*request.thread, request.row, 16, Access::read, request.place);
    std::memcpy(matrices[lane / 8][lane % 8], request.row, 16);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& request = *static_cast<const LoadLane*>(operation.arguments[static_cast<size_t>(lane)]);
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int j = 0; j < 4; ++j) {
      const auto& matrix = matrices[j];
      const uint32_t low = kTransposed ? matrix[pair][group] : matrix[group][pair];
      const uint32_t high = kTransposed ? matrix[pair + 1][group] : matrix[group][pair + 1];
      request.registers[j] = low | high << 16;
    }
  }
}

void load(const char* name, unsigned* registers, const void* row, Site site, const void* place,
          void (*lead)(Warp&, const WarpOperation&)) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    report("bounds", multiprocessor->where(*self) + ": " + name + " " + describe(site) +
                         ": the address of a row is not aligned to 16 bytes");
    multiprocessor->abandon_block();
  }
  LoadLane lane{registers, static_cast<const unsigned char*>(row), self, place};
  multiprocessor->warp_operation(name, kAllLanes, site, &lane, lead);
}

struct MmaLane {
  float* d;
  const unsigned *a, *b;
};

float low_half(unsigned pair) { return std::bit_cast<float>(pair << 16); }
float high_half(unsigned pair) { return std::bit_cast<float>(pair & 0xFFFF0000u); }

void lead_mma(Warp&, const WarpOperation& operation) {
  float a[16][16], b[16][8], product[16][8] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const auto& fragment = *static_cast<const MmaLane*>(operation.arguments[static_cast<size_t>(lane)]);
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int j = 0; j < 4; ++j) {
      float* to = &a[group + j % 2 * 8][pair + j / 2 * 8];
      to[0] = low_half(fragment.a[j]);
      to[1] = high_half(fragment.a[j]);
    }
    for (int j = 0; j < 2; ++j) {
      b[pair + j * 8][group] = low_half(fragment.b[j]);
      b[pair + j * 8 + 1][group] = high_half(fragment.b[j]);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) product[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& fragment = *static_cast<const MmaLane*>(operation.arguments[static_cast<size_t>(lane)]);
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int j = 0; j < 4; ++j) fragment.d[j] += product[group + j / 2 * 8][pair + j % 2];
  }
}

}  // namespace

void ldmatrix_x4(unsigned (&registers)[4], const void* row, Site site) {
  load("ldmatrix.x4", registers, row, site, __builtin_return_address(0), lead_load<false>);
}

void ldmatrix_x4_trans(unsigned (&registers)[4], const void* row, Site site) {
  load("ldmatrix.x4.trans", registers, row, site, __builtin_return_address(0), lead_load<true>);
}

void mma_bf16_16816(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site) {
  MmaLane lane{d, a, b};
  multiprocessor->warp_operation("mma.m16n8k16", kAllLanes, site, &lane, lead_mma);
}

}  // namespace hostcuda::ptx
