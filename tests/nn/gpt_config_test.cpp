#include "nn/gpt_config.hpp"

#include <gtest/gtest.h>

#include "nn/gpt.hpp"

namespace heed::nn {
namespace {

TEST(ParameterCount, IsThatOfTheModel) {
  int models = 0;
  for (const NormPosition norm_position : {NormPosition::pre, NormPosition::post}) {
    for (const Position position : {Position::learned, Position::sinusoidal, Position::none}) {
      for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
        for (const int64_t kv_heads : {0, 1, 2, 4}) {
          const bool small = form & 4;
          const GptConfig config{.vocab_size = small ? 1 : 13,
                                 .num_layers = small ? 1 : 3,
                                 .d_model = small ? 4 : 12,
                                 .num_heads = 4,
                                 .num_kv_heads = kv_heads,
                                 .d_ff = small ? 0 : 7,
                                 .seq_len = small ? 1 : 5,
                                 .norm_position = norm_position,
                                 .activation = (form & 1) != 0 ? Activation::swiglu : Activation::gelu,
                                 .position = position,
                                 .bias = (form & 1) != 0,
                                 .tie_embeddings = (form & 2) != 0};
          const Gpt gpt(config, DType::f32);
          const ParameterCount count = count_parameters(config);
          const std::vector<ParameterGroup>& groups = gpt.parameters().groups();
          ASSERT_EQ(count.matrices, static_cast<double>(groups[0].parameters)) << ++models;
          ASSERT_EQ(count.vectors, static_cast<double>(groups[1].parameters)) << ++models;
          ASSERT_EQ(count.all(), static_cast<double>(gpt.parameters().parameters()));
          ++models;
        }
      }
    }
  }
  EXPECT_EQ(models, 2 * 3 * 8 * 4);
}

TEST(ParameterCount, OfModelsThatNobodyCanMake) {
  const GptConfig config{.vocab_size = int64_t{1} << 31,
                         .num_layers = int64_t{1} << 40,
                         .d_model = int64_t{1} << 30,
                         .num_heads = 1,
                         .d_ff = int64_t{1} << 32};
  EXPECT_GT(count_parameters(config).all(), 1e31);
}

}  // namespace
}  // namespace heed::nn
