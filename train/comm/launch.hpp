// The launch environment: how mpirun, srun or torchrun started this process, from its environment variables.
//   Open MPI         OMPI_COMM_WORLD_RANK, _SIZE
//   MPICH, Intel MPI PMI_RANK, PMI_SIZE
//   srun             SLURM_PROCID, SLURM_STEP_NUM_TASKS (a batch script itself is not a job step). If srun
//                    has started one of the other launchers, that launcher counts
//   torchrun         RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
#pragma once

#include <functional>
#include <string>

namespace heed::comm {

struct Launch {
  std::string launcher;   // "mpirun", "mpiexec (PMI)", "srun", "torchrun"; empty: none, or a process group of size one
  std::string variables;  // the variables that define it: "RANK=1, WORLD_SIZE=2"
  int rank = 0, size = 1;
  bool by_mpi = false;  // rendezvous through MPI, else through TCP
  std::string address;  // TCP: the host on which rank 0 listens
  int port = 0;         // TCP: the port
  std::string run;      // TCP: run id, the same on all nodes; empty if the launcher sets none
  std::string job;      // identifies the job on its node
  std::string folder;   // on the node, removed by the launcher at the end of the job; empty: none
};

// Returns nullptr for a variable that is not set. find_launch() also treats an empty variable as not set.
using Environment = std::function<const char*(const char*)>;

// Throws CommunicationError for a variable that is missing or not a number, and if two launchers disagree on rank or
// size.
Launch find_launch(const Environment& variable);
// The launch environment of this process.
Launch find_launch();

}  // namespace heed::comm
