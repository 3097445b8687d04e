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

// Each tensor is an allocation of its own, so that what watches over memory sees an access outside of it.
class CudaTestWithoutPool : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) set_memory_caching(Device::cuda, false);
  }
  void TearDown() override {
    if (!IsSkipped()) set_memory_caching(Device::cuda, true);
    CudaTest::TearDown();
  }
};

}  // namespace heed::test
