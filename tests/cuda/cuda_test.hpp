// What all tests of the CUDA backend have in common. Where there is no device they are skipped, which is counted and
// printed: nothing is compared with itself on the CPU.
#pragma once

#include <gtest/gtest.h>

#include "autograd/core/buffer.hpp"
#include "autograd/core/cuda_backend.hpp"

namespace heed::test {

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::status().problem.empty()) GTEST_SKIP() << cuda::status().problem;
    set_memory_poison(true);
  }
  void TearDown() override { set_memory_poison(false); }
};

}  // namespace heed::test
