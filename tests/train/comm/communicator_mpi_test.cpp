// Run by mpirun with 1, 2 and 4 ranks.
#include <unistd.h>

#include "autograd/core/check.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "train/comm/agreement.hpp"

namespace heed::test {
namespace {

class CommunicatorByMpi : public ::testing::TestWithParam<DType> {
 protected:
  comm::ProcessGroup& ranks_ = all_ranks();
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator(ranks_, Device::cpu);
};
INSTANTIATE_TEST_SUITE_P(Types, CommunicatorByMpi, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& form) { return std::string(name(form.param)); });

TEST_P(CommunicatorByMpi, AddsOverRanks) {
  for (const int64_t count : {1, 3, 16, 1000, 300'001}) {
    const Tensor values = values_of(count, ranks_.rank(), GetParam());
    communicator_->start_all_reduce(values.ref());
    communicator_->wait();
    const std::vector<double> sums = values.values();
    for (int64_t i = 0; i < count; ++i) {
      double expected = 0;  // exact in f32: multiples of 1/64
      for (int rank = 0; rank < ranks_.size(); ++rank) expected += value_at(i, rank);
      ASSERT_EQ(sums[static_cast<size_t>(i)], expected) << i << " of " << count;
    }
  }
}

TEST_P(CommunicatorByMpi, GivesEachRankTheSumOfItsPart) {
  const int64_t length = 77, count = length * ranks_.size();
  const Tensor values = values_of(count, ranks_.rank(), GetParam());
  communicator_->start_reduce_scatter(values.ref());
  communicator_->wait();
  const std::vector<double> sums = values.values();
  for (int64_t i = ranks_.rank() * length; i < (ranks_.rank() + 1) * length; ++i) {
    double expected = 0;
    for (int rank = 0; rank < ranks_.size(); ++rank) expected += value_at(i, rank);
    ASSERT_EQ(sums[static_cast<size_t>(i)], expected) << i;
  }
}

TEST_P(CommunicatorByMpi, GathersAndBroadcasts) {
  const int64_t length = 33, count = length * ranks_.size();
  const Tensor gathered = values_of(count, ranks_.rank(), GetParam());
  const Tensor sent = values_of(count, ranks_.rank() + 7, GetParam());
  communicator_->start_all_gather(gathered.ref());
  communicator_->start_broadcast(sent.ref(), ranks_.size() - 1);
  communicator_->wait();
  const std::vector<double> all = gathered.values(), from_last = sent.values();
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(all[static_cast<size_t>(i)], value_at(i, static_cast<int>(i / length))) << i;
    ASSERT_EQ(from_last[static_cast<size_t>(i)], value_at(i, ranks_.size() - 1 + 7)) << i;
  }
}

TEST_P(CommunicatorByMpi, ManyAtOnceStayApart) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back(values_of(100 + i, ranks_.rank() * 20 + i, GetParam()));
  for (const Tensor& tensor : tensors) {
    communicator_->start_all_reduce(tensor.ref());
    communicator_->progress();
  }
  communicator_->wait();
  for (int i = 0; i < 20; ++i) {
    double expected = 0;
    for (int rank = 0; rank < ranks_.size(); ++rank) expected += value_at(5, rank * 20 + i);
    EXPECT_EQ(tensors[static_cast<size_t>(i)].values()[5], expected);
  }
}

TEST_P(CommunicatorByMpi, RefusesWhatCannotBeShared) {
  const Tensor tokens = from_tokens({4}, {1, 2, 3, 4});
  EXPECT_THROW(communicator_->start_all_reduce(tokens.ref()), DTypeError);
  if (ranks_.size() > 1) {
    EXPECT_THROW(communicator_->start_all_gather(values_of(ranks_.size() + 1, 0, GetParam()).ref()), ShapeError);
    EXPECT_THROW(communicator_->start_reduce_scatter(values_of(ranks_.size() + 1, 0, GetParam()).ref()), ShapeError);
  }
  EXPECT_THROW(communicator_->start_broadcast(values_of(4, 0, GetParam()).ref(), ranks_.size()), ValueError);
  communicator_->start_all_reduce(zeros({0}, GetParam()).ref());
  communicator_->wait();
}

TEST_P(CommunicatorByMpi, CountsTheSecondsOfAllWaits) {
  if (ranks_.size() == 1) return;
  constexpr int kWaits = 3;
  constexpr double kMostOfThePauses = 0.09;  // seconds, of 0.12
  for (int i = 0; i < kWaits; ++i) {
    const Tensor values = values_of(16, ranks_.rank(), GetParam());
    if (!ranks_.is_root()) usleep(40'000);
    communicator_->start_all_reduce(values.ref());
    communicator_->wait();
    ranks_.barrier();
  }
  if (ranks_.is_root()) {
    EXPECT_GE(communicator_->waited_seconds(), kMostOfThePauses);
  }
}

// The tests start all ranks on one host.
TEST(RanksByMpi, CountTheRanksOfTheirNode) { EXPECT_EQ(all_ranks().local_rank(), all_ranks().rank()); }

TEST(RanksByMpi, GatherTextsOfAnyLength) {
  comm::ProcessGroup& ranks = all_ranks();
  const std::vector<std::string> texts = ranks.gather_texts(std::string(static_cast<size_t>(ranks.rank() * 3), 'x'));
  ASSERT_EQ(texts.size(), static_cast<size_t>(ranks.size()));
  for (size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], std::string(rank * 3, 'x'));
}

TEST(RanksByMpi, AgreeOnAnErrorOfOneOfThem) {
  comm::ProcessGroup& ranks = all_ranks();
  if (ranks.size() == 1) {
    EXPECT_THROW(comm::check_on_all_ranks(ranks, [] { throw DataError("torn"); }), DataError);
    return;
  }
  try {
    comm::check_on_all_ranks(ranks, [&] {
      if (ranks.rank() == 1) throw DataError("torn");
    });
    FAIL() << "nothing thrown";
  } catch (const comm::CollectiveError& error) {
    EXPECT_EQ(error.exit_code, 3);
    EXPECT_EQ(std::string(error.what()), ranks.is_root() ? "rank 1: torn" : "");
  }
  try {
    comm::check_on_all_ranks(ranks, [] { throw ConfigError("the same everywhere"); });
    FAIL() << "nothing thrown";
  } catch (const comm::CollectiveError& error) {
    EXPECT_EQ(error.exit_code, 2);
    EXPECT_EQ(std::string(error.what()), ranks.is_root() ? "the same everywhere" : "");
  }
  EXPECT_NO_THROW(comm::check_on_all_ranks(ranks, [] {}));
}

TEST(RanksByMpi, SayWhatIsNotTheSame) {
  comm::ProcessGroup& ranks = all_ranks();
  EXPECT_NO_THROW(comm::require_same_on_all_ranks(ranks, "config", "a\nb"));
  if (ranks.size() == 1) return;
  try {
    comm::require_same_on_all_ranks(ranks, "config", ranks.rank() == 1 ? "a\nc" : "a\nb");
    FAIL() << "nothing thrown";
  } catch (const comm::CollectiveError& error) {
    EXPECT_EQ(error.exit_code, 7);
    EXPECT_EQ(std::string(error.what()),
              ranks.is_root() ? "all ranks must have the same config: rank 0 has `b`, rank 1 has `c`" : "");
  }
  // One text is longer than the other.
  for (const bool root_has_more : {true, false}) {
    try {
      comm::require_same_on_all_ranks(ranks, "config", (ranks.rank() == 1) != root_has_more ? "a\nb" : "a");
      ADD_FAILURE() << "nothing thrown";
    } catch (const comm::CollectiveError& error) {
      const char* expected = root_has_more
                                 ? "all ranks must have the same config: rank 0 has `b`, rank 1 has `nothing`"
                                 : "all ranks must have the same config: rank 0 has `nothing`, rank 1 has `b`";
      EXPECT_EQ(std::string(error.what()), ranks.is_root() ? expected : "");
    }
  }
}

}  // namespace
}  // namespace heed::test
