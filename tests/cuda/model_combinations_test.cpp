// Combinations of model keys on CUDA beside the CPU: the loss and every gradient of one training step.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/copy.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/model_combinations.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

using test::Factor, test::Overrides;

std::vector<Overrides> combinations() {
  std::vector<Factor> factors = test::model_factors();
  factors.push_back({{"mup_base_width=0"}, {"mup_base_width=8"}});
  return test::covering_combinations(factors);
}

// Gains begin at 1, biases and some projections at 0, where nothing would show that they are missing.
void shake(const nn::ParameterStore& store) {
  uint64_t number = 0;
  for (const nn::ParameterStore::Entry& entry : store.entries()) {
    const RandomStream random{.seed = 6, .site = random_site(RandomDomain::init), .step = number++};
    std::vector<double> values = entry.values.values();
    for (size_t i = 0; i < values.size(); ++i) values[i] += 0.2 * random.normal_pair(i)[0];
    copy_elements_to(entry.values.ref(), from_values(entry.shape, entry.values.dtype(), values));
  }
  store.update_copies();
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

class ModelCombinationsOnCuda : public test::CudaTest, public testing::WithParamInterface<DType> {
 protected:
  ModelCombinationsOnCuda() { test::write_text(text_); }
  Trainer trainer_on(const char* device, const Overrides& combination) const {
    Overrides keys = test::combination_base(text_);
    keys.insert(keys.end(), combination.begin(), combination.end());
    keys.push_back(fmt::format("precision={}", name(GetParam())));
    keys.push_back(fmt::format("device={}", device));
    return Trainer(test::tiny_config(keys));
  }

 private:
  const test::TemporaryFolder folder_;
  const std::filesystem::path text_ = folder_.path() / "text.txt";
};
INSTANTIATE_TEST_SUITE_P(Precisions, ModelCombinationsOnCuda, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(ModelCombinationsOnCuda, GiveTheLossAndGradientsOfTheCpu) {
  const bool is_f32 = GetParam() == DType::f32;
  const double of_loss = is_f32 ? test::kCudaLossF32 : test::kCudaLossBf16;
  const double of_gradient = is_f32 ? test::kCudaGradientF32 : test::kCudaGradientBf16;
  for (const Overrides& combination : combinations()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(combination, " ")));
    Trainer cuda = trainer_on("cuda", combination), cpu = trainer_on("cpu", combination);
    for (const Trainer* trainer : {&cuda, &cpu}) shake(trainer->model().parameters());
    const StepResult found = cuda.train_step(), expected = cpu.train_step();
    EXPECT_NEAR(found.loss, expected.loss, of_loss * expected.loss);
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, of_loss * expected.grad_norm);
    for (const nn::ParameterStore::Entry& entry : cpu.model().parameters().entries()) {
      const std::vector<double> gradient = entry.tensor.grad().values();
      std::vector<double> difference = cuda.model().parameters().entry(entry.name).tensor.grad().values();
      for (size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
      EXPECT_GT(norm_of(gradient), 0) << entry.name;
      EXPECT_LE(norm_of(difference), of_gradient * norm_of(gradient)) << entry.name;
    }
  }
}

}  // namespace
}  // namespace heed::train
