// Communicators of NCCL: their begin, their end, and the errors that they remember.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "src/device.hpp"
#include "src/nccl.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
std::string last_error;

std::set<const ncclComm*>& communicators() {  // also those that have ended
  static auto* communicators = new std::set<const ncclComm*>;
  return *communicators;
}

std::vector<std::string> live_communicators() {
  size_t alive = 0;
  for (const ncclComm* comm : communicators()) alive += comm->ended_by == nullptr ? 1 : 0;
  if (alive == 0) return {};
  return {format("%zu communicators of NCCL", alive)};
}
const bool kIsAsked = (add_leaks(live_communicators), true);

// What ranks tell each other before they begin.
struct Introduction {
  ncclUniqueId id;
  int ranks, rank;
};

ncclResult_t check_introductions(const Introduction& mine, const std::vector<char>& all) {
  std::set<int> present;
  for (size_t i = 0; i * sizeof(Introduction) < all.size(); ++i) {
    Introduction other;
    std::memcpy(&other, &all[i * sizeof(Introduction)], sizeof(Introduction));
    present.insert(other.rank);
    if (std::memcmp(&other.id, &mine.id, sizeof(ncclUniqueId)) != 0 || other.ranks != mine.ranks) {
      report_nccl("ncclCommInitRank: not all processes gave the same id and number of ranks");
      return ncclInvalidUsage;
    }
  }
  if (present.size() == static_cast<size_t>(mine.ranks)) return ncclSuccess;
  report_nccl("ncclCommInitRank: two processes gave the same rank");
  return ncclInvalidUsage;
}

// Splits MPI's communicator of all processes, so that ranks may be in another order than MPI's.
ncclResult_t join(ncclComm& comm, const ncclUniqueId& id) {
  if (!mpi_is_running()) return refuse(ncclInvalidUsage, "ncclCommInitRank: several ranks need MPI_Init before");
  require_functions_of_mpi();
  int processes = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (processes != comm.ranks) {
    return refuse(ncclInvalidUsage, format("ncclCommInitRank: %d ranks, but %d processes: the double has only "
                                           "communicators of all processes, and of one",
                                           comm.ranks, processes));
  }
  finish_collectives();  // other processes may wait for this one there
  const Introduction mine{id, comm.ranks, comm.rank};
  const auto all = gather_from_all(MPI_COMM_WORLD, &mine, sizeof(mine), "ncclCommInitRank");
  if (const ncclResult_t result = check_introductions(mine, all); result != ncclSuccess) return result;
  static int joined = 0;
  comm.number = joined++;
  PMPI_Comm_split(all_processes(), 0, comm.rank, &comm.mpi);
  return ncclSuccess;
}

ncclResult_t end(const char* call, ncclComm_t comm) {
  if (const ncclResult_t result = require_live(call, comm); result != ncclSuccess) return result;
  comm->ended_by = call;
  return ncclSuccess;
}

}  // namespace

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
  last_error = why;
  if (!quiet) std::fprintf(stderr, "hostcuda: NCCL: %s\n", why.c_str());
  return result;
}

void report_nccl(const std::string& text) {
  last_error = text;
  report("nccl", text);
}

ncclResult_t require_live(const char* call, ncclComm_t comm) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, std::string(call) + ": the communicator is null");
  const bool is_known = communicators().count(comm) != 0;
  if (is_known && comm->ended_by == nullptr) return ncclSuccess;
  report_nccl(std::string(call) + (is_known ? std::string(": the communicator was ended by ") + comm->ended_by
                                            : ": that is no communicator"));
  return ncclInvalidArgument;
}

}  // namespace hostcuda

using namespace hostcuda;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "ncclGetVersion: null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int given = 0;
  if (id == nullptr) return refuse(ncclInvalidArgument, "ncclGetUniqueId: null");
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "hostcuda %d of process %d", given++, static_cast<int>(getpid()));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const Guard guard(runtime_lock);
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument, format("ncclCommInitRank: rank %d of %d", rank, ranks));
  }
  if (config != nullptr && (config->size != sizeof(ncclConfig_t) || config->magic != kConfigMagic)) {
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: not begun as NCCL_CONFIG_INITIALIZER");
  }
  if (config != nullptr && config->blocking != 1 && config->blocking != NCCL_CONFIG_UNDEF_INT) {
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: the double has only communicators that block");
  }
  if (require_device() != cudaSuccess || refuse_unsafe_in_capture() != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "ncclCommInitRank: no device, or a capture under way");
  }
  *comm = nullptr;
  ncclComm candidate{0, ranks, rank};
  if (ranks > 1) {
    if (const ncclResult_t result = join(candidate, id); result != ncclSuccess) return result;
  }
  *comm = new ncclComm(candidate);
  communicators().insert(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const Guard guard(runtime_lock);
  if (comm == nullptr) return ncclSuccess;
  if (refuse_unsafe_in_capture() != cudaSuccess) {
    return refuse(ncclUnhandledCudaError, "ncclCommDestroy: a capture is under way");
  }
  finish_collectives();
  if (const ncclResult_t result = end("ncclCommDestroy", comm); result != ncclSuccess) return result;
  if (comm->mpi != MPI_COMM_NULL && mpi_is_running()) PMPI_Comm_free(&comm->mpi);
  return ncclSuccess;
}

// Gives up what has not run yet. MPI's communicator stays: to free it is a matter of all ranks.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Guard guard(runtime_lock);
  return comm == nullptr ? ncclSuccess : end("ncclCommAbort", comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Guard guard(runtime_lock);
  if (const ncclResult_t result = require_live("ncclCommGetAsyncError", comm); result != ncclSuccess) return result;
  *error = comm->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const Guard guard(runtime_lock);
  if (const ncclResult_t result = require_live("ncclCommCount", comm); result != ncclSuccess) return result;
  *count = comm->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const Guard guard(runtime_lock);
  if (const ncclResult_t result = require_live("ncclCommUserRank", comm); result != ncclSuccess) return result;
  *rank = comm->rank;
  return ncclSuccess;
}
