// Buckets of gradients where ranks differ in which parameters they use, and in which order. Run by mpirun with 1, 2 and
// 4 ranks.
#include "autograd/core/check.hpp"
#include "autograd/ops/elementwise.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "train/comm/grad_bucket.hpp"

namespace heed::test {
namespace {

const Shape kShape{32, 32};  // a bucket each

// Six parameters, and a shorter one in the last bucket. The gradient of parameter i on rank r is
// values_of(…, seed(i, r)).
class Buckets : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int kParameters = 7;
  static int seed(int parameter, int rank) { return 10 * rank + parameter; }

  Buckets() {
    for (int i = 0; i < kParameters; ++i) {
      store_.declare("p" + std::to_string(i), i == 0 ? Shape{16, 32} : kShape, {.std = 1});
    }
    store_.build(1, comm::GradBuckets::span_multiple(ranks_.size()));
    buckets_.emplace(*communicator_, store_, GetParam());
  }

  // One step in which this rank uses these parameters; backward comes to the last one first.
  void step(const std::vector<int>& used) {
    store_.zero_gradients();
    buckets_->last_backward([&] {
      for (auto i = used.rbegin(); i != used.rend(); ++i) {
        const Tensor& parameter = store_.entries()[static_cast<size_t>(*i)].tensor;
        const Tensor factor = values_of(parameter.numel(), seed(*i, ranks_.rank()), DType::f32);
        backward(mul(parameter, factor.slice(0, parameter.shape())), full(parameter.shape(), DType::f32, 1));
      }
    });
    buckets_->flush();
    communicator_->wait();
  }

  // Where `used_by(rank, parameter)`, that rank has added its gradient.
  template <class UsedBy>
  void expect_sums(UsedBy used_by) {
    std::vector<Tensor> own;
    for (const size_t span : buckets_->spans_of(0)) own.push_back(buckets_->spans()[span].gradients);
    const std::vector<double> all = buckets_->whole(0, own).values();
    for (int i = 0; i < kParameters; ++i) {
      const auto& entry = store_.entries()[static_cast<size_t>(i)];
      for (int64_t k = 0; k < entry.shape.numel(); ++k) {
        double expected = 0;  // exact in f32
        for (int rank = 0; rank < ranks_.size(); ++rank) {
          if (used_by(rank, i)) expected += value_at(k, seed(i, rank));
        }
        ASSERT_EQ(all[static_cast<size_t>(entry.offset + k)], expected) << entry.name << ", element " << k;
      }
    }
  }

  comm::ProcessGroup& ranks_ = all_ranks();
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator(ranks_, Device::cpu);
  nn::ParameterStore store_{DType::f32};
  std::optional<comm::GradBuckets> buckets_;
};
INSTANTIATE_TEST_SUITE_P(Forms, Buckets, ::testing::Values(false, true),
                         [](const auto& form) { return form.param ? "sharded" : "whole"; });

const std::vector<int> kAll{0, 1, 2, 3, 4, 5, 6};

TEST_P(Buckets, AddUpWhereOneRankUsesAParameterThatOthersDoNot) {
  ASSERT_EQ(buckets_->count(), 7u);
  for (int i = 0; i < 3; ++i) {
    step(ranks_.rank() == 0 ? kAll : std::vector<int>{0, 1, 2, 4, 5, 6});
    expect_sums([](int rank, int parameter) { return rank == 0 || parameter != 3; });
    EXPECT_EQ(buckets_->overlapped(), i == 0 ? 0 : buckets_->count()) << "step " << i;
  }
}

TEST_P(Buckets, AddUpWhereRanksComeToTheParametersInAnotherOrder) {
  for (int i = 0; i < 3; ++i) {
    step(ranks_.rank() % 2 == 0 ? kAll : std::vector<int>{5, 3, 6, 0, 2, 1, 4});
    expect_sums([](int, int) { return true; });
    EXPECT_EQ(buckets_->overlapped(), i == 0 ? 0 : buckets_->count()) << "step " << i;
  }
}

TEST_P(Buckets, AddUpWhereARankUsesLessThanInItsFirstStep) {
  step(kAll);
  step(ranks_.rank() == 0 ? kAll : std::vector<int>{0, 1, 2, 3, 5, 6});
  expect_sums([](int rank, int parameter) { return rank == 0 || parameter != 4; });
  // p6 and p5, which are complete; p4 never is, and those behind it wait for it.
  EXPECT_EQ(buckets_->overlapped(), ranks_.rank() == 0 ? 7u : 2u);
  step(kAll);
  expect_sums([](int, int) { return true; });
}

TEST_P(Buckets, NameAParameterThatIsUsedMoreOftenThanInTheFirstStep) {
  step({0, 1, 2, 3, 4, 6});
  try {
    step(kAll);
    FAIL() << "nothing thrown";
  } catch (const GraphError& error) {
    EXPECT_NE(std::string(error.what()).find("parameter 'p5' is used 1 times"), std::string::npos) << error.what();
  }
  communicator_->wait();
}

// As a checkpoint is loaded: operations take the copies.
TEST_P(Buckets, SetWeightsAlsoInTheCopiesOfBf16) {
  nn::ParameterStore store(DType::bf16);
  store.declare("p", kShape, {.std = 1});
  store.build(1, comm::GradBuckets::span_multiple(ranks_.size()));
  comm::GradBuckets buckets(*communicator_, store, GetParam());
  const Tensor weights = values_of(store.groups()[0].gradients.numel(), 3, DType::f32);  // exact in bf16
  buckets.set_weights(0, weights);
  EXPECT_EQ(buckets.whole_weights(0).values(), weights.values());
  EXPECT_EQ(store.groups()[0].copies.values(), weights.values());
}

}  // namespace
}  // namespace heed::test
