#include "train/run/head_size_notice.hpp"

#include <gtest/gtest.h>

namespace heed::train {
namespace {

std::optional<std::string> notice(int64_t head_size, Device device, DType precision = DType::f32) {
  Config config;
  config.model.d_model = 4 * head_size;
  config.model.num_heads = 4;
  config.train.precision = precision;
  return head_size_notice(config, device);
}

TEST(HeadSizeNotice, SmallHeadsOnACpu) {
  EXPECT_NE(notice(8, Device::cpu).value_or("").find("head size 8 "), std::string::npos);
  EXPECT_NE(notice(15, Device::cpu, DType::bf16), std::nullopt);
  for (const int64_t size : {16, 20, 64, 256}) EXPECT_EQ(notice(size, Device::cpu), std::nullopt) << size;
}

TEST(HeadSizeNotice, NoTensorCoresOnCuda) {
  for (const int64_t size : {20, 136, 256}) EXPECT_NE(notice(size, Device::cuda, DType::bf16), std::nullopt) << size;
  for (const int64_t size : {8, 64, 128}) EXPECT_EQ(notice(size, Device::cuda, DType::bf16), std::nullopt) << size;
  EXPECT_EQ(notice(20, Device::cuda), std::nullopt) << "f32 uses none";
}

}  // namespace
}  // namespace heed::train
