// What the tests of the emulated NCCL share. They run as ranks of mpirun, and alone without MPI.
#pragma once

#include <cuda_bf16.h>
#include <mpi.h>
#include <nccl.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/stream_test.cuh"

namespace hostcuda::test {

inline bool has_mpi() {
  int is_begun = 0;
  MPI_Initialized(&is_begun);
  return is_begun != 0;
}
inline int world_rank() {
  int rank = 0;
  if (has_mpi()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_ranks() {
  int ranks = 1;
  if (has_mpi()) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

// Of rank 0, for all.
inline ncclUniqueId shared_id() {
  ncclUniqueId id{};
  if (world_rank() == 0) {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  }
  if (has_mpi()) MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  return id;
}

class Communicator {
 public:
  Communicator() : Communicator(world_ranks(), world_rank()) {}
  Communicator(int ranks, int rank) { EXPECT_EQ(ncclCommInitRank(&handle_, ranks, shared_id(), rank), ncclSuccess); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { EXPECT_EQ(ncclCommDestroy(handle_), ncclSuccess); }
  operator ncclComm_t() const { return handle_; }
  ncclComm_t release() { return std::exchange(handle_, nullptr); }

 private:
  ncclComm_t handle_ = nullptr;
};

// One element of device memory.
template <class T>
struct DeviceValue : DeviceArray<T> {
  explicit DeviceValue(T value) : DeviceArray<T>(std::vector<T>{value}) {}
};

// The reports so far, "kind: text", a line each. Takes them.
inline std::string reports() {
  cudaDeviceSynchronize();
  std::string lines;
  for (const Report& report : take_reports()) lines += report.kind + ": " + report.text + "\n";
  return lines;
}

inline ::testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is missing in:\n" << text;
}

// As bits: NaN equals itself, and zeros have a sign.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& found, const std::vector<T>& wanted) {
  if (found.size() != wanted.size()) return ::testing::AssertionFailure() << "other sizes";
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &wanted[i], sizeof(T)) == 0) continue;
    return ::testing::AssertionFailure() << "element " << i << ": " << static_cast<double>(found[i]) << ", not "
                                         << static_cast<double>(wanted[i]);
  }
  return ::testing::AssertionSuccess();
}

class NcclTest : public KernelTest {
 protected:
  const int rank = world_rank(), ranks = world_ranks();
  const size_t my_place = static_cast<size_t>(rank), places = static_cast<size_t>(ranks);
};

}  // namespace hostcuda::test
