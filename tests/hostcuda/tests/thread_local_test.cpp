// Thread-local variables of the host are not taken for __shared__ arrays, which are filled with NaN before each block.
#include "tests/kernel_test.cuh"

namespace hostcuda::test {

// With names of their own in the whole program, as those of headers are.
inline int& of_inline_function() {
  static thread_local int value = 1;
  return value;
}
template <class T>
T& of_template() {
  static thread_local T value = 2;
  return value;
}

namespace {

int& of_function() {
  static thread_local int value = 3;
  return value;
}

__global__ void nothing_kernel() {}

TEST(ThreadLocal, OfTheHostStaysAsItIs) {
  of_inline_function() += 10;
  of_template<int>() += 10;
  of_function() += 10;
  ASSERT_EQ(launch({3, 32}, nothing_kernel), cudaSuccess);
  EXPECT_EQ(of_inline_function(), 11);
  EXPECT_EQ(of_template<int>(), 12);
  EXPECT_EQ(of_function(), 13);
}

}  // namespace
}  // namespace hostcuda::test
