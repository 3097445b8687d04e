#include "train/comm/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "autograd/core/check.hpp"

namespace heed::comm {
namespace {

// The variable must be set.
int number(const Environment& variable, const char* name, int most) {
  const char* text = variable(name);
  int value = -1;
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, value);
  require<CommunicationError>(error == std::errc() && last == end && value >= 0 && value <= most,
                              "the environment has {}={}, it must be a number from 0 to {}", name, text, most);
  return value;
}

constexpr int kMostRanks = 65535;

struct Names {
  const char *launcher, *rank, *size;
};
// srun is last: if variables of another launcher are set too, srun has started that launcher.
constexpr Names kNames[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

Launch read(const Environment& variable, const Names& names) {
  Launch launch;
  launch.launcher = names.launcher;
  launch.size = number(variable, names.size, kMostRanks);
  require<CommunicationError>(variable(names.rank) != nullptr,
                              "the environment has {}={} but no {}, which a launcher of several ranks sets with it: "
                              "unset {} if it is left over, or start heed with mpirun, srun or torchrun",
                              names.size, launch.size, names.rank, names.size);
  launch.rank = number(variable, names.rank, kMostRanks);
  launch.variables = fmt::format("{}={}, {}={}", names.rank, launch.rank, names.size, launch.size);
  require<CommunicationError>(launch.rank < launch.size, "the environment has {}: a rank must be below the size",
                              launch.variables);
  launch.by_mpi = launch.launcher != "torchrun";
  return launch;
}

// Identifies the job: equal on all its ranks on a node, different for other jobs.
std::string job_of(const Environment& variable) {
  std::string job;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri", "SLURM_JOB_ID",
                           "SLURM_STEP_ID", "PMI_PORT", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}) {
    if (const char* text = variable(name); text != nullptr) job += fmt::format("{}={};", name, text);
  }
  return job;
}

void find_master(const Environment& variable, Launch& launch) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    require<CommunicationError>(variable(name) != nullptr,
                                "the environment has RANK and WORLD_SIZE but no {}: start heed with torchrun or "
                                "mpirun, set MASTER_ADDR and MASTER_PORT to a host and a free port of rank 0, or unset "
                                "RANK and WORLD_SIZE to train with one process",
                                name);
  }
  launch.address = variable("MASTER_ADDR");
  if (const char* run = variable("TORCHELASTIC_RUN_ID"); run != nullptr) launch.run = run;
  launch.port = number(variable, "MASTER_PORT", 65534);
  // torchrun's own store then listens on MASTER_PORT itself.
  const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::strcmp(agent, "True") == 0) ++launch.port;
}

}  // namespace

Launch find_launch(const Environment& environment) {
  // "RANK= WORLD_SIZE= heed …" is a common way to clear variables.
  const Environment variable = [&](const char* name) -> const char* {
    const char* text = environment(name);
    return text == nullptr || *text == '\0' ? nullptr : text;
  };
  Launch found;
  for (const Names& names : kNames) {
    if (variable(names.size) == nullptr) continue;
    // RANK without WORLD_SIZE, or WORLD_SIZE without RANK, was not set by a launcher.
    if (std::strcmp(names.launcher, "torchrun") == 0 && variable(names.rank) == nullptr) continue;
    const Launch launch = read(variable, names);
    if (found.launcher.empty()) {
      found = launch;
      continue;
    }
    if (std::strcmp(names.launcher, "srun") == 0) continue;
    require<CommunicationError>(launch.size == found.size && launch.rank == found.rank,
                                "the environment disagrees with itself on the ranks: {}, but {}; unset those of the "
                                "launcher that did not start this process",
                                found.variables, launch.variables);
  }
  if (found.size == 1) return {};
  if (!found.by_mpi) find_master(variable, found);
  found.job = job_of(variable);
  if (const char* folder = variable("PMIX_SERVER_TMPDIR"); folder != nullptr) found.folder = folder;
  return found;
}

Launch find_launch() {
  return find_launch([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace heed::comm
