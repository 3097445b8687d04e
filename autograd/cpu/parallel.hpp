// Threads of the CPU backend. OpenMP where it is built in (one pool with oneDNN), plain threads elsewhere.
//
// Kernels stay deterministic for any number of threads: what one index computes must not depend on which other
// indices share its range.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace heed::cpu {

// A non-owning reference to something callable, valid for the time of one call.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Threads of the whole process: what set_max_threads() says, else OMP_NUM_THREADS, else as many as there are CPUs for
// this process (its affinity mask, and the CPU quota of its control groups); OMP_THREAD_LIMIT is never exceeded.
int max_threads();
// max_threads() and what decided it: "1 thread (CPU quota 1.0 of 2 CPUs)" (autograd/cpu/thread_count.hpp).
std::string describe_threads();
// Throws ValueError below 1.
void set_max_threads(int threads);
// Must be called before a library that divides its work by the number of threads OpenMP promises (oneDNN): that number
// becomes max_threads(), and OpenMP starts no fewer than it promises (as OMP_DYNAMIC and OMP_THREAD_LIMIT make it do),
// or parts of the result would never be written. For the calling thread.
void keep_promised_threads();

// Calls body(begin, end) on disjoint ranges that cover [0, n), each at least `grain` long where there are several.
// Runs on the calling thread where n < 2 * grain or inside another parallel_for. body must not throw.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);
// Calls body(i, thread) for each i of [0, n), for tasks of uneven size. Each thread begins with a run of tasks as long
// as the others' (the part that parallel_for gives it with as many threads), so that it finds in its caches what it
// wrote there before, and then takes from the others'. 0 <= thread < the smallest of n, most_threads and max_threads().
void parallel_tasks(int64_t n, int64_t most_threads, FunctionRef<void(int64_t, int64_t)> body);

// Elements below which a simple elementwise loop is not worth waking another thread.
inline constexpr int64_t kElementwiseGrain = 16384;

}  // namespace heed::cpu
