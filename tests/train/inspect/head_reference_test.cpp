// Head scores against TransformerLens: the fixture is made by tests/reference/make_head_fixture.py.
#include <gtest/gtest.h>

#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/checkpoint/hdf5_image.hpp"
#include "train/inspect/inspection.hpp"

namespace heed::train {
namespace {

TEST(HeadReference, ScoresAreThoseOfTransformerLens) {
  const CheckpointContent fixture =
      image_to_content(test::read_file(std::filesystem::path(HEED_REFERENCE_FIXTURES) / "heads.h5"));
  nn::GptConfig config = parse_config(fixture.text("config"), "heads.h5").model;
  config.vocab_size = fixture.tensors.at("weights/token_embedding.weight").shape()[0];
  nn::Gpt model(config, DType::f32);
  for (const nn::ParameterStore::Entry& entry : model.parameters().entries()) {
    copy_elements_to(entry.values.ref(), fixture.tensor("weights/" + entry.name, DType::f32, entry.shape).ref());
  }
  const Tensor& inputs = fixture.tensors.at("inputs");
  const auto* const tokens = inputs.data<int32_t>();
  const data::Batch batch{.rows = inputs.shape()[0],
                          .seq_len = inputs.shape()[1],
                          .inputs = {tokens, tokens + inputs.numel()},
                          .targets = {tokens, tokens + inputs.numel()}};
  const Inspection found = inspect(model, batch, lengths_by_targets(batch), std::nullopt);
  const std::vector<double> expected = fixture.tensors.at("scores").values();
  size_t i = 0;
  for (const HeadScore score : {HeadScore::previous, HeadScore::duplicate, HeadScore::induction}) {
    for (const auto& layer : found.heads) {
      for (const InspectedHead& head : layer) {
        EXPECT_NEAR(head.scores.of(score), expected[i++], test::kTransformerLens)
            << kHeadScoreNames[static_cast<size_t>(score)];
      }
    }
  }
  EXPECT_EQ(i, expected.size());
}

}  // namespace
}  // namespace heed::train
