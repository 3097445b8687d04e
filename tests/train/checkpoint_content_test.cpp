// What a reader says about entries of a checkpoint that it does not use.
#include "train/checkpoint_content.hpp"

#include "tests/train/checkpoint_samples.hpp"

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

TEST(CheckpointContentTest, AReaderOfOneFolderIgnoresTheOthers) {
  const CheckpointContent content = with_tensors({"parameters/a", "optimizer/first/a", "other"});
  EXPECT_NO_THROW(require_no_other_tensors(content, Names{"parameters/a"}, "parameters/"));
  const std::string error = checkpoint_error([&] {
    require_no_other_tensors(content, Names{"optimizer/first/a", "other"}, "parameters/");
  });
  expect_text(error, "it has 1 dataset ");
  expect_text(error, ": tensors/parameters/a");
}

TEST(CheckpointContentTest, NumbersAndTextsThatNobodyReadsAreNamed) {
  CheckpointContent content = with_tensors({"parameters/a"});
  content.integers["step"] = 1;
  content.reals["seconds"] = 2;
  content.texts["config"] = "";
  const auto error = [&](const Names& expected) {
    return checkpoint_error([&] { require_no_other_values(content, expected); });
  };
  EXPECT_EQ(error({"texts/config", "reals/seconds", "integers/step", "texts/tokenizer"}), "no error");
  EXPECT_EQ(error({"texts/config", "reals/seconds"}),
            "checkpoint /runs/a/last.h5: it has 1 dataset that this version of heed does not know: integers/step");
  // The same name of another kind is another entry.
  EXPECT_EQ(error({"integers/config", "texts/step", "integers/seconds"}),
            "checkpoint /runs/a/last.h5: it has 3 datasets that this version of heed does not know: integers/step, "
            "reals/seconds, texts/config");
}

}  // namespace
}  // namespace heed::train
