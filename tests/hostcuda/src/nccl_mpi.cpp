// What the emulated NCCL asks of MPI, and the functions of MPI that other code waits in.
#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "src/nccl.hpp"
#include "src/report.hpp"
#include "src/stream.hpp"

namespace hostcuda {
namespace {

constexpr uint64_t kDefaultSeconds = 120;

int size_of(MPI_Comm mpi) {
  int size = 0;
  PMPI_Comm_size(mpi, &size);
  return size;
}

// A rank that never makes the call is a fault of the program: it ends here, with the name of the call.
void wait(MPI_Request& request, const std::string& what) {
  using Clock = std::chrono::steady_clock;
  static const std::chrono::seconds limit(environment_number("HOSTCUDA_NCCL_SECONDS", kDefaultSeconds));
  const Clock::time_point begin = Clock::now();
  int is_done = 0;
  for (PMPI_Test(&request, &is_done, MPI_STATUS_IGNORE); !is_done; PMPI_Test(&request, &is_done, MPI_STATUS_IGNORE)) {
    if (Clock::now() - begin > limit) give_up(format("%td s, and not all ranks came to ", limit.count()) + what);
    std::this_thread::yield();
  }
}

}  // namespace

bool mpi_is_running() {
  int begun = 0, ended = 0;
  PMPI_Initialized(&begun);
  PMPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

void require_functions_of_mpi() {
  if (dlsym(RTLD_DEFAULT, "MPI_Barrier") == reinterpret_cast<void*>(&MPI_Barrier)) return;
  give_up("this program was linked with MPI before the double of NCCL, which does not see its calls of MPI so");
}

MPI_Comm all_processes() {
  static const MPI_Comm all = [] {
    MPI_Comm copy = MPI_COMM_NULL;  // so that its messages are not taken for those of the program
    PMPI_Comm_dup(MPI_COMM_WORLD, &copy);
    return copy;
  }();
  return all;
}

std::vector<char> gather_from_all(MPI_Comm mpi, const void* bytes, size_t size, const std::string& what) {
  std::vector<char> all(size * static_cast<size_t>(size_of(mpi)));
  const int count = static_cast<int>(size);
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallgather(bytes, count, MPI_BYTE, all.data(), count, MPI_BYTE, mpi, &request);
  wait(request, what);
  return all;
}

std::vector<char> exchange_with_all(MPI_Comm mpi, const void* bytes, size_t piece, const std::string& what) {
  std::vector<char> all(piece * static_cast<size_t>(size_of(mpi)));
  const int count = static_cast<int>(piece);
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ialltoall(bytes, count, MPI_BYTE, all.data(), count, MPI_BYTE, mpi, &request);
  wait(request, what);
  return all;
}

void broadcast_to_all(MPI_Comm mpi, void* bytes, size_t size, int root, const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ibcast(bytes, static_cast<int>(size), MPI_BYTE, root, mpi, &request);
  wait(request, what);
}

}  // namespace hostcuda

// While a process waits in MPI its GPU goes on, so that another one may wait for the GPU's part in a collective. Here
// that part is done before.
using hostcuda::finish_collectives;

int MPI_Barrier(MPI_Comm comm) {
  finish_collectives();
  return PMPI_Barrier(comm);
}
int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Bcast(buffer, count, type, root, comm);
}
int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Reduce(send, receive, count, type, op, root, comm);
}
int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
int MPI_Gather(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
               MPI_Datatype receive_type, int root, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}
int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
}
int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  finish_collectives();
  return PMPI_Send(buffer, count, type, to, tag, comm);
}
int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  finish_collectives();
  return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  finish_collectives();
  return PMPI_Wait(request, status);
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  finish_collectives();
  return PMPI_Waitall(count, requests, statuses);
}
int MPI_Finalize() {
  finish_collectives();
  return PMPI_Finalize();
}
