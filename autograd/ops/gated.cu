// Threads: each processes as many adjacent elements of y as 16 bytes hold, or one if size or alignment do not allow it,
// in thread blocks of 256. Memory, per element of y in f32 (half of it for bf16): forward reads 8 bytes and writes 4,
// backward reads 12 and writes 8; about 20 operations per element, so both are memory-bound. The bits do not depend on
// the order of threads.
#include "autograd/ops/gated.hpp"

#include "autograd/cuda/activation.cuh"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;

// The first of N adjacent columns of y that this thread processes, and where they are in h.
template <int N>
struct Place {
  int64_t y, gate, up;

  __device__ __forceinline__ Place(int64_t columns) {
    y = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
    const int64_t row = y / columns;
    gate = y + row * columns;
    up = gate + columns;
  }
};

template <int N, class F, class T>
__global__ void __launch_bounds__(kThreads) gated_forward_kernel(int64_t n, int64_t columns, F f, T* y, const T* h) {
  const Place<N> place(columns);
  if (place.y >= n) return;
  Floats<N> out = load<N>(h + place.gate);
  const Floats<N> up = load<N>(h + place.up);
#pragma unroll
  for (int i = 0; i < N; ++i) out.value[i] = f(out.value[i]) * up.value[i];
  store<N>(y + place.y, out);
}

// dh may be h: a thread has read its elements when it writes over them.
template <int N, class F, class G, class T>
__global__ void __launch_bounds__(kThreads)
    gated_backward_kernel(int64_t n, int64_t columns, F f, G gradient, bool add, T* dh, const T* dy, const T* h) {
  const Place<N> place(columns);
  if (place.y >= n) return;
  const Floats<N> dout = load<N>(dy + place.y), gate = load<N>(h + place.gate), up = load<N>(h + place.up);
  Floats<N> dgate = add ? load<N>(dh + place.gate) : Floats<N>{}, dup = add ? load<N>(dh + place.up) : Floats<N>{};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    dgate.value[i] += gradient(dout.value[i] * up.value[i], gate.value[i]);
    dup.value[i] += dout.value[i] * f(gate.value[i]);
  }
  store<N>(dh + place.gate, dgate);
  store<N>(dh + place.up, dup);
}

const char* name_of(Gate gate) { return gate == Gate::silu ? "swiglu" : "geglu"; }

}  // namespace

void gated_forward(Context&, const GatedForward& p) {
  const int64_t n = p.y.shape.numel(), columns = p.y.shape.columns();
  if (n == 0) return;
  visit_elements(name_of(p.gate), p.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = elements<T>(p.y);
    const T* h = elements<T>(p.h);
    const auto run = [&](auto width, auto f) {
      launch(gated_forward_kernel<width(), decltype(f), T>, {blocks_for(n / width(), kThreads), kThreads}, n, columns,
             f, y, h);
    };
    const auto with_width = [&](auto width) { p.gate == Gate::silu ? run(width, Silu{}) : run(width, Gelu<T>{}); };
    constexpr int kVector = kPerVector<T>;
    can_move<kVector>(columns, y, h) ? with_width(std::integral_constant<int, kVector>{})
                                     : with_width(std::integral_constant<int, 1>{});
  });
}

void gated_backward(Context&, const GatedBackward& p) {
  const int64_t n = p.dy.shape.numel(), columns = p.dy.shape.columns();
  if (!p.dh || n == 0) return;
  visit_elements(name_of(p.gate), p.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* dh = elements<T>(p.dh.ref);
    const T *dy = elements<T>(p.dy), *h = elements<T>(p.h);
    const auto run = [&](auto width, auto f, auto gradient) {
      launch(gated_backward_kernel<width(), decltype(f), decltype(gradient), T>,
             {blocks_for(n / width(), kThreads), kThreads}, n, columns, f, gradient, p.dh.add, dh, dy, h);
    };
    const auto with_width = [&](auto width) {
      p.gate == Gate::silu ? run(width, Silu{}, SiluGradient{}) : run(width, Gelu<T>{}, GeluGradient<T>{});
    };
    constexpr int kVector = kPerVector<T>;
    can_move<kVector>(columns, dh, dy, h) ? with_width(std::integral_constant<int, kVector>{})
                                          : with_width(std::integral_constant<int, 1>{});
  });
}

}  // namespace heed::cuda
