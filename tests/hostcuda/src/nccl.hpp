// The emulated NCCL: communicators, calls that all ranks make, and the exchange of their bytes by MPI.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

// Never deleted, so that a use after its end shows.
struct ncclComm {
  int number;  // the same on all ranks
  int ranks, rank;
  MPI_Comm mpi = MPI_COMM_NULL;    // stays null where there is one rank, which has no need of MPI
  const char* ended_by = nullptr;  // null while it lives
  uint64_t calls = 0;              // that have run
  ncclResult_t error = ncclSuccess;
};

namespace hostcuda {

enum class Collective : int32_t { all_reduce, reduce_scatter, all_gather, broadcast };
const char* name_of(Collective collective);

struct CollectiveCall {
  Collective what;
  const void* send;
  void* recv;
  size_t count;  // what the caller gives: of the smaller of the two ranges
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclSum where there is none
  int root;        // 0 where there is none
};

size_t bytes_of(ncclDataType_t type);  // 0: no type

// SUCCESS, or why the call is refused. A communicator that has ended is a report.
ncclResult_t require_live(const char* call, ncclComm_t comm);
ncclResult_t refuse(ncclResult_t result, const std::string& why);
void report_nccl(const std::string& text);  // also for ncclGetLastError

// When its turn comes on the stream.
void run_call(ncclComm& comm, const CollectiveCall& call);

// ---- What goes through MPI (nccl_mpi.cpp); each waits for all ranks
bool mpi_is_running();
void require_functions_of_mpi();  // that the program calls those of nccl_mpi.cpp
MPI_Comm all_processes();         // for their calls alone
// The same number of bytes of each rank, in the order of ranks. `what` it is for, should a rank never come.
std::vector<char> gather_from_all(MPI_Comm mpi, const void* bytes, size_t size, const std::string& what);
// Piece r of the bytes goes to rank r; the pieces for this rank, in the order of ranks.
std::vector<char> exchange_with_all(MPI_Comm mpi, const void* bytes, size_t piece, const std::string& what);
void broadcast_to_all(MPI_Comm mpi, void* bytes, size_t size, int root, const std::string& what);

}  // namespace hostcuda
