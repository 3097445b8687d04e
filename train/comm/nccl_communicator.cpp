#include "train/comm/backend.hpp"

#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/runtime.hpp"
#include "train/comm/agreement.hpp"

namespace heed::comm {
namespace {

// call: the function that returned the result.
void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw CommunicationError(fmt::format("{} failed: {} ({}); NCCL_DEBUG=INFO tells more", call,
                                       ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

ncclDataType_t type_of(DType dtype) { return dtype == DType::f64 ? ncclFloat64 : ncclFloat32; }

ncclUniqueId shared_id(ProcessGroup& ranks) {
  ncclUniqueId id{};
  if (ranks.is_root()) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return ranks.gather(id)[0];
}

struct Place {
  std::array<char, 64> device;
  int index;
};

void require_apart(const std::vector<Place>& places) {
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = a + 1; b < places.size(); ++b) {
      require<CommunicationError>(
          places[a].device != places[b].device,
          "rank {} and rank {} are both on the device {} (number {} and {}): start as many ranks "
          "as a node has devices, or give each its own by CUDA_VISIBLE_DEVICES",
          a, b, places[a].device.data(), places[a].index, places[b].index);
    }
  }
}

void require_own_devices(ProcessGroup& ranks) {
  Place mine{.device = {}, .index = cuda::device_index()};
  const std::string id = cuda::device_id();
  std::copy_n(id.begin(), std::min(id.size(), mine.device.size() - 1), mine.device.begin());
  const std::vector<Place> places = ranks.gather(mine);
  check_on_all_ranks(ranks, [&] { require_apart(places); });
}

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(ProcessGroup& ranks) : Communicator(ranks) {
    require_own_devices(ranks);
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
    for (cudaEvent_t* event : {&ready_, &done_}) {
      cuda::check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "make an event");
    }
    const ncclUniqueId id = shared_id(ranks);
    {
      const Waiting waiting(ranks, "ncclCommInitRank");
      ncclComm_t made = nullptr;
      check(ncclCommInitRank(&made, ranks.size(), id, ranks.rank()), "ncclCommInitRank");
      nccl_ = made;
    }
    // NCCL kernels wait on the device for peers that never arrive, and every wait for the device then hangs too.
    if (ranks.watchdog() == nullptr) return;
    ranks.watchdog()->on_timeout([this] { interrupt(); });
    ranks.watchdog()->ask_for_errors([this] { return error_of_the_network(); });
  }

  ~NcclCommunicator() override {
    if (ranks().watchdog() != nullptr) {
      ranks().watchdog()->on_timeout({});
      ranks().watchdog()->ask_for_errors({});
    }
    const Waiting waiting(ranks(), "ncclCommDestroy");
    if (std::uncaught_exceptions() > 0) {
      interrupt();  // the other ranks may never destroy their communicators
    } else if (ncclComm_t comm = nccl_.exchange(nullptr); comm != nullptr) {
      ncclCommDestroy(comm);
    }
    cudaEventDestroy(ready_);
    cudaEventDestroy(done_);
    cudaStreamDestroy(stream_);
  }

 private:
  void all_reduce(const TensorRef& values) override {
    follow();
    check(ncclAllReduce(values.data, values.data, count(values), type_of(values.dtype), ncclSum, nccl_, stream_),
          "ncclAllReduce");
  }
  void reduce_scatter(const TensorRef& values) override {
    follow();
    check(ncclReduceScatter(values.data, part(values), count(values) / size_of_world(), type_of(values.dtype), ncclSum,
                            nccl_, stream_),
          "ncclReduceScatter");
  }
  void all_gather(const TensorRef& values) override {
    follow();
    check(ncclAllGather(part(values), values.data, bytes(values) / size_of_world(), ncclUint8, nccl_, stream_),
          "ncclAllGather");
  }
  void broadcast(const TensorRef& values, int root) override {
    follow();
    check(ncclBroadcast(values.data, values.data, bytes(values), ncclUint8, root, nccl_, stream_), "ncclBroadcast");
  }
  void finish() override {
    cuda::check(cudaEventRecord(done_, stream_), "record an event");
    cuda::check(cudaStreamWaitEvent(cuda::stream(), done_, 0), "wait for an event");
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(nccl_, &state), "ncclCommGetAsyncError");
    check(state, "an NCCL collective");
  }

  // The work queued so far computes the values.
  void follow() {
    cuda::check(cudaEventRecord(ready_, cuda::stream()), "record an event");
    cuda::check(cudaStreamWaitEvent(stream_, ready_, 0), "wait for an event");
  }
  // A failed link or peer: kernels on the device continue to wait for it.
  std::string error_of_the_network() const {
    ncclResult_t state = ncclSuccess;
    ncclComm_t comm = nccl_;
    if (comm == nullptr || ncclCommGetAsyncError(comm, &state) != ncclSuccess || state == ncclSuccess) return {};
    return fmt::format("an NCCL collective failed: {} ({}); NCCL_DEBUG=INFO tells more", ncclGetErrorString(state),
                       ncclGetLastError(comm));
  }
  void interrupt() {
    if (ncclComm_t comm = nccl_.exchange(nullptr); comm != nullptr) ncclCommAbort(comm);
  }

  static size_t count(const TensorRef& values) { return static_cast<size_t>(values.shape.numel()); }
  static size_t bytes(const TensorRef& values) { return count(values) * static_cast<size_t>(size_bytes(values.dtype)); }
  size_t size_of_world() const { return static_cast<size_t>(size()); }
  char* part(const TensorRef& values) const {
    return static_cast<char*>(values.data) + static_cast<size_t>(rank()) * (bytes(values) / size_of_world());
  }

  std::atomic<ncclComm_t> nccl_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr, done_ = nullptr;
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Communicator> make_nccl_communicator(ProcessGroup& ranks) {
  return std::make_unique<NcclCommunicator>(ranks);
}

}  // namespace heed::comm
