#include "train/comm/launch.hpp"

#include <gtest/gtest.h>

#include <map>

#include "autograd/core/check.hpp"

namespace heed::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
  return find_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  try {
    launch_of(variables);
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "nothing thrown";
}

const Variables kMpirun{
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Variables kTorchrun{
    {"RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(Launch, WithoutALauncherIsAWorldOfOne) {
  EXPECT_EQ(launch_of({}).size, 1);
  EXPECT_EQ(launch_of({{"WORLD_SIZE", "1"}, {"RANK", "0"}}).size, 1);
  EXPECT_EQ(launch_of({{"WORLD_SIZE", "4"}}).size, 1) << "somebody else's variable";
  // A batch script of Slurm is one process, whatever its job has tasks.
  EXPECT_EQ(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "5"}}).size, 1);
}

// As `RANK= WORLD_SIZE= heed …` clears them.
TEST(Launch, TakesAnEmptyVariableForNotSet) {
  for (const Variables& pair : {Variables{{"RANK", ""}, {"WORLD_SIZE", ""}},
                                {{"RANK", ""}, {"WORLD_SIZE", "2"}},
                                {{"RANK", "1"}, {"WORLD_SIZE", ""}},
                                {{"OMPI_COMM_WORLD_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}},
                                {{"PMI_RANK", "1"}, {"PMI_SIZE", ""}},
                                {{"SLURM_PROCID", ""}, {"SLURM_STEP_NUM_TASKS", ""}}}) {
    EXPECT_EQ(launch_of(pair).size, 1);
    EXPECT_EQ(launch_of(with(kTorchrun, pair)).size, pair.contains("RANK") ? 1 : 8);
  }
  const Launch launch = launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", ""}, {"PMIX_SERVER_TMPDIR", ""}}));
  EXPECT_EQ(launch.job, launch_of(kTorchrun).job);
  EXPECT_EQ(launch.folder, "");
  EXPECT_EQ(launch.variables, "RANK=1, WORLD_SIZE=8");
}

TEST(Launch, ByMpirun) {
  const Launch launch = launch_of(kMpirun);
  EXPECT_EQ(launch.launcher, "mpirun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_TRUE(launch.by_mpi);
  const Launch hydra = launch_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}});
  EXPECT_EQ(hydra.rank, 1);
  EXPECT_EQ(hydra.launcher, "mpiexec (PMI)");
}

TEST(Launch, BySrunAndByMpirunInsideOfIt) {
  const Variables srun{{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_LOCALID", "2"}};
  const Launch launch = launch_of(srun);
  EXPECT_EQ(launch.launcher, "srun");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 16);
  const Launch inner = launch_of(with(srun, kMpirun));
  EXPECT_EQ(inner.launcher, "mpirun");
  EXPECT_EQ(inner.rank, 3);
  // One task of srun a node, each a torchrun.
  const Launch workers = launch_of(with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, kTorchrun));
  EXPECT_EQ(workers.launcher, "torchrun");
  EXPECT_EQ(workers.size, 8);
}

TEST(Launch, ByTorchrun) {
  const Launch launch = launch_of(kTorchrun);
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_FALSE(launch.by_mpi);
  EXPECT_EQ(launch.address, "node7");
  EXPECT_EQ(launch.port, 29500);
  // torchrun's own store listens on MASTER_PORT then.
  EXPECT_EQ(launch_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).port, 29501);
}

TEST(Launch, TellsJobsApart) {
  const Launch a = launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a"}}));
  const Launch b = launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "b"}}));
  EXPECT_NE(a.job, b.job);
}

TEST(Launch, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of(with(kMpirun, {{"RANK", "3"}, {"WORLD_SIZE", "8"}})),
            "the environment disagrees with itself on the ranks: OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_SIZE=4, but "
            "RANK=3, WORLD_SIZE=8; unset those of the launcher that did not start this process");
  EXPECT_EQ(error_of({{"OMPI_COMM_WORLD_SIZE", "4"}}),
            "the environment has OMPI_COMM_WORLD_SIZE=4 but no OMPI_COMM_WORLD_RANK, which a launcher of several ranks "
            "sets with it: unset OMPI_COMM_WORLD_SIZE if it is left over, or start heed with mpirun, srun or torchrun");
  EXPECT_EQ(error_of({{"RANK", "x1"}, {"WORLD_SIZE", "2"}}),
            "the environment has RANK=x1, it must be a number from 0 to 65535");
  EXPECT_EQ(error_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "the environment has RANK=2, WORLD_SIZE=2: a rank must be below the size");
  const std::string what_to_change =
      ": start heed with torchrun or mpirun, set MASTER_ADDR and MASTER_PORT to a host and a free port of rank 0, or "
      "unset RANK and WORLD_SIZE to train with one process";
  EXPECT_EQ(error_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "the environment has RANK and WORLD_SIZE but no MASTER_ADDR" + what_to_change);
  EXPECT_EQ(error_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", ""}}),
            "the environment has RANK and WORLD_SIZE but no MASTER_PORT" + what_to_change);
}

}  // namespace
}  // namespace heed::comm
