// What an evaluation of the averaged weights reports if the other ranks are lost in the middle of it.
#include "autograd/core/check.hpp"
#include "tests/train/comm/ranks_fixture.hpp"

namespace heed::test {
namespace {

// The collectives of another communicator, which fail once the peers are lost.
class FragileCommunicator final : public comm::Communicator {
 public:
  FragileCommunicator(std::unique_ptr<comm::Communicator> inner, const bool& is_lost)
      : Communicator(inner->ranks()), inner_(std::move(inner)), is_lost_(is_lost) {}

 private:
  comm::Communicator& inner() {
    require<CommunicationError>(!is_lost_, "the second error");
    return *inner_;
  }
  void all_reduce(const TensorRef& values) override { inner().start_all_reduce(values); }
  void reduce_scatter(const TensorRef& values) override { inner().start_reduce_scatter(values); }
  void all_gather(const TensorRef& values) override { inner().start_all_gather(values); }
  void broadcast(const TensorRef& values, int root) override { inner().start_broadcast(values, root); }
  void finish() override { inner().wait(); }

  const std::unique_ptr<comm::Communicator> inner_;
  const bool& is_lost_;
};

// The swap back fails as well, and what it says is not the reason.
TEST(LostPeer, LeavesTheFirstErrorOfAnEvaluationOfTheAverage) {
  comm::ProcessGroup& ranks = all_ranks();
  if (ranks.size() == 1) return;
  const auto error_of = [&](bool has_first) {
    bool is_lost = false;
    train::Trainer trainer(tiny_config({"batch_size=8", "ema_decay=0.9", "shard_optimizer=true"}), ranks,
                           [&](comm::ProcessGroup& group, Device device) {
                             return std::make_unique<FragileCommunicator>(comm::make_communicator(group, device),
                                                                          is_lost);
                           });
    trainer.train_step();
    const auto lose = [&](int64_t, int64_t) {
      is_lost = true;
      require<CommunicationError>(!has_first, "the first error");
      return true;
    };
    try {
      trainer.evaluate(data::Split::validation, 0, lose, train::EvaluatedWeights::average);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string first = error_of(true), second = error_of(false);
  EXPECT_EQ(first, ranks.is_root() ? "the first error" : "");  // printed by the root
  EXPECT_EQ(second, "the second error");
}

}  // namespace
}  // namespace heed::test
