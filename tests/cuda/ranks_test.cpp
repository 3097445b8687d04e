// Training on several CUDA devices by NCCL, beside one rank on the CPU. By mpirun with one device each, or as a world
// of one, which calls NCCL all the same.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <span>

#include "autograd/core/check.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/backend.hpp"
#include "train/run/snapshot.hpp"

namespace heed::test {
namespace {

using Overrides = std::vector<std::string>;

std::unique_ptr<comm::Communicator> by_nccl(comm::ProcessGroup& ranks, Device) {
  return comm::make_nccl_communicator(ranks);
}

class RanksOnCuda : public CudaTest {
 protected:
  static train::Config config_of(const char* device, const Overrides& more) {
    Overrides all{"dropout=0.1", "batch_size=8", std::string("device=") + device};
    all.insert(all.end(), more.begin(), more.end());
    return tiny_config(all);
  }
  static std::vector<double> losses(train::Trainer& trainer, int steps = 3) {
    std::vector<double> result;
    for (int i = 0; i < steps; ++i) result.push_back(trainer.train_step().loss);
    return result;
  }
  static std::vector<double> weights(const train::Trainer& trainer) {
    std::vector<double> result;
    for (int group = 0; group < 2; ++group) {
      const std::vector<double> values = trainer.buckets().whole_weights(group).values();
      result.insert(result.end(), values.begin(), values.end());
    }
    return result;
  }
  static void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << i;
  }

  comm::ProcessGroup& ranks_ = all_ranks();
};

const Overrides kForms[] = {{"clip_norm=1"},
                            {"micro_batch_size=1"},
                            {"shard_optimizer=true"},
                            {"optimizer=muon", "shard_optimizer=true"},
                            {"shard_optimizer=true", "norm_position=post", "recompute=true", "tie_embeddings=false"}};
const std::span<const Overrides> kSomeForms = std::span(kForms).subspan(1, 2);

TEST_F(RanksOnCuda, TakeThePathOfOneRankOnTheCpu) {
  for (const Overrides& form : kForms) {
    SCOPED_TRACE(form.front());
    train::Trainer on_ranks(config_of("cuda", form), ranks_, by_nccl), alone(config_of("cpu", form));
    expect_near(losses(on_ranks), losses(alone), kCudaLossF32);
    on_ranks.require_same_weights();
  }
}

TEST_F(RanksOnCuda, TakeTheSamePathInBf16) {
  for (Overrides form : kSomeForms) {
    SCOPED_TRACE(form.front());
    form.push_back("precision=bf16");
    train::Trainer on_ranks(config_of("cuda", form), ranks_, by_nccl), alone(config_of("cpu", form));
    expect_near(losses(on_ranks), losses(alone), kCudaLossBf16);
    on_ranks.require_same_weights();
  }
}

TEST_F(RanksOnCuda, ARecordedStepIsTheSameBitForBit) {
  for (Overrides form : kSomeForms) {
    SCOPED_TRACE(form.front());
    train::Trainer recorded(config_of("cuda", form), ranks_, by_nccl);
    form.push_back("cuda_graph=false");
    train::Trainer plain(config_of("cuda", form), ranks_, by_nccl);
    EXPECT_EQ(losses(recorded), losses(plain));
    EXPECT_EQ(weights(recorded), weights(plain));
    EXPECT_GE(recorded.buckets().overlapped(), recorded.buckets().count() / 2);
  }
}

TEST_F(RanksOnCuda, AWishToStopReachesAll) {
  train::Trainer trainer(config_of("cuda", {}), ranks_, by_nccl);
  for (int i = 0; i < 4; ++i) {
    const bool wishes = i % 2 == 1 && ranks_.rank() == ranks_.size() - 1;
    EXPECT_EQ(trainer.train_step(wishes).must_stop, i % 2 == 1) << i;
  }
}

TEST_F(RanksOnCuda, EndTogetherWithoutData) { expect_all_to_end_without_data("cuda", by_nccl); }

// From a world with another number of ranks, and from the CPU.
TEST_F(RanksOnCuda, GoOnFromACheckpointOfOneRank) {
  for (const Overrides& form : kForms) {
    SCOPED_TRACE(form.front());
    train::Trainer alone(config_of("cpu", form));
    losses(alone, 3);
    const train::CheckpointContent content = train::snapshot(alone, {});
    train::Trainer on_ranks(config_of("cuda", form), ranks_, by_nccl);
    losses(on_ranks, 2);
    train::restore(on_ranks, content);
    expect_near(losses(on_ranks, 3), losses(alone, 3), kCudaLossF32);
    EXPECT_EQ(on_ranks.step(), 6);
    const train::CheckpointContent again = train::snapshot(on_ranks, {});
    EXPECT_EQ(again.tensors.size(), ranks_.is_root() ? content.tensors.size() : 0);
  }
}

TEST_F(RanksOnCuda, EvaluateAsOneRank) {
  train::Trainer on_ranks(config_of("cuda", {}), ranks_, by_nccl), alone(config_of("cpu", {}));
  const train::Evaluation a = on_ranks.evaluate(data::Split::validation, 3);
  const train::Evaluation b = alone.evaluate(data::Split::validation, 3);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_NEAR(a.loss, b.loss, kCudaLossF32);
}

TEST_F(RanksOnCuda, ShareNoDevice) {
  if (ranks_.size() == 1) return;
  setenv("HOSTCUDA_DEVICE_ID", "5", 1);  // as the emulator has it
  try {
    comm::make_nccl_communicator(ranks_);
    ADD_FAILURE() << "two ranks share a device";
  } catch (const comm::CollectiveError& error) {
    EXPECT_EQ(error.exit_code, 7);
    const std::string begin = "rank 0 and rank 1 are both on the device GPU-05000000-0000-0000-0000-000000000000";
    EXPECT_EQ(std::string(error.what()).substr(0, begin.size()), ranks_.is_root() ? begin : "");
  }
  unsetenv("HOSTCUDA_DEVICE_ID");
}

TEST_F(RanksOnCuda, CommunicatorAddsScattersGathersAndBroadcasts) {
  const std::unique_ptr<comm::Communicator> communicator = comm::make_nccl_communicator(ranks_);
  const int64_t length = 33, count = length * ranks_.size();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto own = [&](int seed) { return values_of(count, ranks_.rank() + seed, dtype).to(Device::cuda); };
    const Tensor sum = own(0), part = own(1), gathered = own(2), sent = own(3);
    communicator->start_all_reduce(sum.ref());
    communicator->start_reduce_scatter(part.ref());
    communicator->start_all_gather(gathered.ref());
    communicator->start_broadcast(sent.ref(), ranks_.size() - 1);
    communicator->wait();
    const auto over_ranks = [&](int64_t i, int seed) {
      double total = 0;
      for (int rank = 0; rank < ranks_.size(); ++rank) total += value_at(i, rank + seed);
      return total;
    };
    const std::vector<double> a = sum.values(), b = part.values(), c = gathered.values(), d = sent.values();
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(a[at], over_ranks(i, 0)) << i;
      if (i / length == ranks_.rank()) {
        EXPECT_EQ(b[at], over_ranks(i, 1)) << i;
      }
      EXPECT_EQ(c[at], value_at(i, static_cast<int>(i / length) + 2)) << i;
      EXPECT_EQ(d[at], value_at(i, ranks_.size() - 1 + 3)) << i;
    }
  }
}

}  // namespace
}  // namespace heed::test
