// heed against PyTorch: logits, every gradient and ten steps of small models, in f64 and f32. The numbers come from
// tests/reference/make_fixtures.py, which also says what a fixture holds.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/tape.hpp"
#include "data/text/char_tokenizer.hpp"
#include "optim/adamw.hpp"
#include "optim/grad_clip.hpp"
#include "optim/muon.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/checkpoint/hdf5_image.hpp"
#include "train/comm/init.hpp"
#include "train/trainer/factory.hpp"
#include "train/trainer/parameter_options.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

CheckpointContent read_fixture(const std::string& name) {
  CheckpointContent content =
      image_to_content(test::read_file(std::filesystem::path(HEED_REFERENCE_FIXTURES) / (name + ".h5")));
  content.file = name;
  return content;
}

double tolerance(DType dtype) { return dtype == DType::f64 ? test::kTorchF64 : test::kTorchF32; }

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

// How far off, as a share of the norm of what is expected.
void expect_equal(const std::string& what, const std::vector<double>& actual, const std::vector<double>& expected,
                  DType dtype) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  std::vector<double> difference = actual;
  for (size_t i = 0; i < expected.size(); ++i) difference[i] -= expected[i];
  EXPECT_GT(norm(expected), 0) << what;
  EXPECT_LE(norm(difference), tolerance(dtype) * norm(expected)) << what << " in " << name(dtype);
}

// Losses and gradient norms of steps, each by itself.
void expect_each_equal(const std::string& what, const std::vector<double>& actual, const std::vector<double>& expected,
                       DType dtype) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(fmt::format("{} of step {}", what, i + 1), {actual[i]}, {expected[i]}, dtype);
  }
}

std::vector<double> expected(const CheckpointContent& fixture, DType dtype, const std::string& what) {
  const auto found = fixture.tensors.find(fmt::format("{}/{}", name(dtype), what));
  require<CheckpointError>(found != fixture.tensors.end(), "fixture {} has no {}", fixture.file, what);
  return found->second.values();
}

void set_weights(const nn::Gpt& model, const CheckpointContent& fixture) {
  for (const nn::ParameterStore::Entry& entry : model.parameters().entries()) {
    const Tensor& from = fixture.tensor("weights/" + entry.name, DType::f32, entry.shape);
    visit_accumulation(entry.tensor.dtype(), [&](auto zero) {
      std::copy_n(from.data<float>(), from.numel(), entry.tensor.data<decltype(zero)>());
    });
  }
}

nn::Gpt make_model(const Config& config, const CheckpointContent& fixture, DType dtype) {
  nn::GptConfig shape = config.model;
  std::unique_ptr<data::Tokenizer> tokenizer;
  if (config.data.source == DataSource::text) {
    data::CharacterSet characters;
    characters.add(fixture.text("text"));
    tokenizer = std::make_unique<data::CharTokenizer>(characters.finish(), false);
  }
  set_from_data(shape, config.data, fixture.tensors.at("weights/token_embedding.weight").shape()[0], tokenizer.get());
  return nn::Gpt(shape, dtype);
}

struct ReferenceTest : testing::TestWithParam<std::string> {
  const CheckpointContent fixture = read_fixture(GetParam());
  const Config config = parse_config(fixture.text("config"), GetParam());

  // (B, T) of one step.
  Tensor tokens(const std::string& what, int64_t step) const {
    const Tensor& all = fixture.tensors.at(what);
    const int64_t rows = all.shape()[1], length = all.shape()[2];
    return all.slice(step * rows * length, {rows, length});
  }
};

TEST_P(ReferenceTest, LogitsAndEveryGradientAreThoseOfPyTorch) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const nn::Gpt model = make_model(config, fixture, dtype);
    set_weights(model, fixture);
    expect_equal("logits", model.logits(tokens("inputs", 0), {}).values(), expected(fixture, dtype, "logits"), dtype);
    const Tensor loss = model.loss(tokens("inputs", 0), tokens("targets", 0), {});
    expect_equal("loss", loss.values(), {expected(fixture, dtype, "losses")[0]}, dtype);
    backward(loss);
    for (const nn::ParameterStore::Entry& entry : model.parameters().entries()) {
      const std::string gradient = "gradients/" + entry.name;
      expect_equal(gradient, entry.tensor.grad().values(), expected(fixture, dtype, gradient), dtype);
    }
  }
}

TEST_P(ReferenceTest, TenStepsAreThoseOfPyTorch) {
  const std::unique_ptr<comm::ProcessGroup> ranks = comm::single_rank();
  for (const DType dtype : {DType::f64, DType::f32}) {
    nn::Gpt model = make_model(config, fixture, dtype);
    set_weights(model, fixture);
    const auto communicator = comm::make_communicator(*ranks, Device::cpu);
    const comm::GradBuckets buckets(*communicator, model.parameters(), false,
                                    entry_options(config, model.parameters()));
    const std::vector<optim::ParameterSpan>& spans = buckets.spans();
    const OptimConfig& c = config.optim;
    optim::AdamW optimizer(spans, {c.beta1, c.beta2, c.eps, c.weight_decay});
    std::vector<double> losses, norms;
    for (int64_t step = 0; step < config.train.steps; ++step) {
      model.parameters().zero_gradients();
      const Tensor loss = model.loss(tokens("inputs", step), tokens("targets", step), {});
      backward(loss);
      losses.push_back(loss.item());
      norms.push_back(optim::global_norm(spans));
      optimizer.step(optim::learning_rate(schedule_options(config), step),
                     optim::clip_factor(norms.back(), c.clip_norm));
    }
    expect_each_equal("loss", losses, expected(fixture, dtype, "losses"), dtype);
    expect_each_equal("gradient norm", norms, expected(fixture, dtype, "norms"), dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceTest,
                         testing::Values("pre_mha_tied", "pre_mha_untied", "pre_gqa_tied", "pre_gqa_untied",
                                         "post_mha_tied", "post_mha_untied", "post_gqa_tied", "post_gqa_untied",
                                         "gelu_erf", "relu2", "silu", "swiglu", "geglu", "rope", "rope_part",
                                         "rope_llama3", "softcap", "alibi", "window", "attention_only", "rms",
                                         "embedding_norm", "norm_without_gain", "qk_norm", "norms_together", "sandwich",
                                         "mup", "mup_tied", "documents", "documents_rope"),
                         [](const auto& test) { return test.param; });

// The same for the trainer as a whole: batches from a source, micro-batches, schedule, clipping, and Muon for matrices
// of which one parameter holds several. The text has one sequence, so every row of every batch is known.
class TrainerReferenceTest : public testing::TestWithParam<std::string> {};

TEST_P(TrainerReferenceTest, TenStepsAreThoseOfPyTorch) {
  const CheckpointContent fixture = read_fixture(GetParam());
  const test::TemporaryFolder folder;
  const std::filesystem::path text = folder.path() / "text.txt";
  std::ofstream(text) << fixture.text("text");
  for (const DType dtype : {DType::f64, DType::f32}) {
    Trainer trainer(parse_config(fixture.text("config"), "trainer",
                                 {"data.path=" + text.string(), fmt::format("train.precision={}", name(dtype))}));
    set_weights(trainer.model(), fixture);
    std::vector<double> losses, norms;
    while (trainer.step() < trainer.config().train.steps) {
      const StepResult step = trainer.train_step();
      losses.push_back(step.loss);
      norms.push_back(step.grad_norm);
    }
    expect_each_equal("loss", losses, expected(fixture, dtype, "losses"), dtype);
    expect_each_equal("gradient norm", norms, expected(fixture, dtype, "norms"), dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TrainerReferenceTest, testing::Values("trainer", "trainer_muon"),
                         [](const auto& test) { return test.param; });

TEST(MuonReferenceTest, TenStepsAreThoseOfPyTorch) {
  using Scale = optim::MuonOptions::Scale;
  const CheckpointContent fixture = read_fixture("muon");
  for (const std::string shape : {"12x20", "20x12"}) {
    for (const auto& [scale_name, scale] :
         {std::pair("original", Scale::original), {"match_rms_adamw", Scale::match_rms_adamw}}) {
      const std::string name = shape + "_" + scale_name;
      const std::vector<double> first = fixture.tensors.at(name + "/weights").values();
      const Tensor& all = fixture.tensors.at(name + "/gradients");
      const int64_t size = all.numel() / 10;
      const optim::ParameterSpan span{from_values({size}, DType::f64, first), zeros({size}, DType::f64), true};
      const Tensor matrix = span.gradients.slice(0, {all.shape()[1], all.shape()[2]});
      optim::Muon optimizer({span}, {matrix}, {.momentum = 0.9, .weight_decay = 0.2, .scale = scale});
      for (int64_t step = 0; step < 10; ++step) {
        std::copy_n(all.data<float>() + step * size, size, span.gradients.data<double>());
        optimizer.step(0.05);
      }
      const std::vector<double> found = span.weights.values();
      expect_equal(name, found, fixture.tensors.at(name + "/f64").values(), DType::f64);
      std::vector<double> from_torch = fixture.tensors.at(name + "/torch").values(), moved = found;
      for (size_t i = 0; i < found.size(); ++i) from_torch[i] -= found[i], moved[i] -= first[i];
      EXPECT_LE(norm(from_torch), test::kTorchMuonBf16 * norm(moved)) << name;
    }
  }
}

}  // namespace
}  // namespace heed::train
