#include "train/comm/backend.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "autograd/core/buffer.hpp"
#include "autograd/core/check.hpp"

namespace heed::comm {
namespace {

// call: the function that returned the code.
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError(fmt::format("{} failed: {}", call, std::string_view(text, static_cast<size_t>(length))));
}

// MPI counts are of type int.
constexpr int64_t kMostAtOnce = int64_t{1} << 30;

class MpiProcessGroup final : public ProcessGroup {
 public:
  MpiProcessGroup(const Launch& launch, double timeout_s) : ProcessGroup(launch.rank, launch.size) {
    // Before MPI_Init, in which a rank that never starts blocks all others.
    watch(launch, timeout_s);
    int given = 0, is_started = 0;
    MPI_Initialized(&is_started);
    if (is_started == 0) {
      const Waiting waiting(*this, "MPI_Init_thread");
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
      has_started_ = true;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int size = 0, rank = 0;
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    require<CommunicationError>(size == launch.size && rank == launch.rank,
                                "the environment has {}, but for MPI this is rank {} of {}: unset these variables if "
                                "they are left over; else another MPI has started heed than the one it is built with "
                                "({}): use that one's mpirun, or srun --mpi=pmix",
                                launch.variables, rank, size, mpi_library());
    rendezvous_complete();
  }
  // MPI_Finalize waits for all ranks; after an error the others may never call it.
  ~MpiProcessGroup() override {
    if (!has_started_ || std::uncaught_exceptions() > 0) return;
    const Waiting waiting(*this, "MPI_Finalize");
    MPI_Finalize();
  }

  bool by_mpi() const override { return true; }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  void gather_bytes(const void* mine, int64_t bytes, void* all) override {
    require<CommunicationError>(bytes <= kMostAtOnce, "{} bytes of each rank at once, the most are {}", bytes,
                                kMostAtOnce);
    const int count = static_cast<int>(bytes);
    check(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather");
  }

  bool has_started_ = false;  // this object initialized MPI and must finalize it
};

MPI_Datatype type_of(DType dtype) { return dtype == DType::f64 ? MPI_DOUBLE : MPI_FLOAT; }

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(ProcessGroup& ranks) : Communicator(ranks) {
    // Tensors use a separate communicator, since host values are exchanged on MPI_COMM_WORLD.
    const Waiting waiting(ranks, "MPI_Comm_dup");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) return;  // the other ranks may never free their communicators
    const Waiting waiting(ranks(), "MPI_Comm_free");
    MPI_Comm_free(&world_);
  }

  void progress() override {
    int done = 0;
    if (!requests_.empty()) {
      check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
            "MPI_Testall");
    }
  }

 private:
  void all_reduce(const TensorRef& values) override {
    pending_name_ = "the all-reduce";
    for_each_chunk("MPI_Iallreduce", values.data, values.shape.numel(), size_bytes(values.dtype),
                   [&](void* data, int count, MPI_Request* request) {
                     return MPI_Iallreduce(MPI_IN_PLACE, data, count, type_of(values.dtype), MPI_SUM, world_, request);
                   });
  }
  void broadcast(const TensorRef& values, int root) override {
    pending_name_ = "the broadcast";
    const int64_t bytes = values.shape.numel() * size_bytes(values.dtype);
    for_each_chunk("MPI_Ibcast", values.data, bytes, 1, [&](void* data, int count, MPI_Request* request) {
      return MPI_Ibcast(data, count, MPI_BYTE, root, world_, request);
    });
  }
  // The sum of the local shard needs a separate buffer: in place, MPI writes it to the start of `values`.
  void reduce_scatter(const TensorRef& values) override {
    pending_name_ = "the reduce-scatter";
    const int64_t count = part_length(values), bytes = count * size_bytes(values.dtype);
    Part part{.sum = Buffer(bytes, Device::cpu, MemoryCategory::workspace),
              .to = static_cast<char*>(values.data) + rank() * bytes};
    check(MPI_Ireduce_scatter_block(values.data, part.sum.data(), static_cast<int>(count), type_of(values.dtype),
                                    MPI_SUM, world_, next_request()),
          "MPI_Ireduce_scatter_block");
    parts_.push_back(std::move(part));
  }
  void all_gather(const TensorRef& values) override {
    pending_name_ = "the all-gather";
    const int bytes = static_cast<int>(part_length(values) * size_bytes(values.dtype));
    check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data, bytes, MPI_BYTE, world_, next_request()),
          "MPI_Iallgather");
  }

  void finish() override {
    const Waiting waiting(ranks(), pending_name_);
    check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    requests_.clear();
    for (const Part& part : parts_) std::memcpy(part.to, part.sum.data(), static_cast<size_t>(part.sum.bytes()));
    parts_.clear();
  }

  struct Part {
    Buffer sum;
    char* to;
  };

  int64_t part_length(const TensorRef& values) const {
    const int64_t count = values.shape.numel() / size();
    require<CommunicationError>(count * size_bytes(values.dtype) <= kMostAtOnce,
                                "{} elements of each rank at once are more than {} bytes", count, kMostAtOnce);
    return count;
  }
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  template <class Start>
  void for_each_chunk(const char* call, void* data, int64_t n, int64_t element_bytes, Start start) {
    for (int64_t begin = 0; begin < n; begin += kMostAtOnce) {
      check(start(static_cast<char*>(data) + begin * element_bytes, static_cast<int>(std::min(kMostAtOnce, n - begin)),
                  next_request()),
            call);
    }
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  const char* pending_name_ = nullptr;  // the collective issued last, for the watchdog
  std::vector<Part> parts_;
};

}  // namespace

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::unique_ptr<ProcessGroup> join_mpi_ranks(const Launch& launch, double timeout_s) {
  return std::make_unique<MpiProcessGroup>(launch, timeout_s);
}
std::unique_ptr<Communicator> make_mpi_communicator(ProcessGroup& ranks) {
  return std::make_unique<MpiCommunicator>(ranks);
}

}  // namespace heed::comm
