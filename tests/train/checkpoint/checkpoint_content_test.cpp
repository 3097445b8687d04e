// What a reader says about entries of a checkpoint that it does not use.
#include "train/checkpoint/checkpoint_content.hpp"

#include "tests/train/checkpoint/checkpoint_samples.hpp"

namespace heed::train {
namespace {

using namespace test;

using Names = std::vector<std::string>;

CheckpointContent with_tensors(const Names& names) {
  CheckpointContent content;
  content.file = "/runs/a/last.h5";
  for (const std::string& name : names) content.tensors[name] = full({1}, DType::f32, 0);
  return content;
}

TEST(CheckpointContentTest, TensorsThatNoParameterTakesAreNamedAndCounted) {
  const CheckpointContent content = with_tensors({"parameters/a", "parameters/b", "optimizer/first/a", "parameters/c",
                                                  "parameters/d", "parameters/e", "parameters/f"});
  const auto error = [&](const Names& expected) {
    return checkpoint_error([&] { require_no_other_tensors(content, expected); });
  };
  const Names all = {"optimizer/first/a", "parameters/f", "parameters/a", "parameters/b",
                     "parameters/c",      "parameters/d", "parameters/e", "parameters/not_in_the_file"};
  EXPECT_EQ(error(all), "no error");
  EXPECT_EQ(
      error({"optimizer/first/a", "parameters/a", "parameters/b", "parameters/d", "parameters/e", "parameters/f"}),
      "checkpoint /runs/a/last.h5: it has 1 dataset that this model and its optimizer do not use: "
      "tensors/parameters/c");
  EXPECT_EQ(error({"parameters/a", "optimizer/first/a", "parameters/f", "parameters/e"}),
            "checkpoint /runs/a/last.h5: it has 3 datasets that this model and its optimizer do not use: "
            "tensors/parameters/b, tensors/parameters/c, tensors/parameters/d");
  expect_text(error({}),
              ": it has 7 datasets that this model and its optimizer do not use: tensors/optimizer/first/a, "
              "tensors/parameters/a, tensors/parameters/b and 4 more");
}

}  // namespace
}  // namespace heed::train
