// What started this process: mpirun, srun or torchrun, as their environment variables tell.
//   Open MPI         OMPI_COMM_WORLD_RANK, _SIZE
//   MPICH, Intel MPI PMI_RANK, PMI_SIZE
//   srun             SLURM_PROCID, SLURM_STEP_NUM_TASKS (a batch script itself is no step). Where it
//                    has started one of the others, that one counts
//   torchrun         RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
#pragma once

#include <functional>
#include <string>

namespace heed::comm {

struct Launch {
  std::string launcher;   // "mpirun", "srun", "torchrun"; empty: none, or a world of one
  std::string variables;  // that say so, with their values: "RANK=1, WORLD_SIZE=2"
  int rank = 0, size = 1;
  bool by_mpi = false;  // ranks find each other by MPI, else by TCP
  std::string address;  // by TCP: where rank 0 listens
  int port = 0;         // by TCP
  std::string run;      // by TCP: names the run on all nodes, where the launcher does
  std::string job;      // names the job on its node
  std::string folder;   // of the node, which the launcher removes at the end of the job; empty: none
};

// nullptr for a variable that is not set. find_launch() takes an empty one for not set, too.
using Environment = std::function<const char*(const char*)>;

// Throws CommunicationError for a variable that is missing or no number, and where two launchers disagree on the world.
Launch find_launch(const Environment& variable);
// Of this process.
Launch find_launch();

}  // namespace heed::comm
