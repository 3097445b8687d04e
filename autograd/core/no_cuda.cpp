// Stubs of the CUDA backend for builds without CUDA.
#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"

namespace heed::cuda {
namespace {

constexpr const char* kProblem =
    "this heed is built without CUDA; ./heed build --cuda builds it with CUDA, which needs nvcc";

[[noreturn]] void refuse() { throw DeviceError(kProblem); }

}  // namespace

const Status& status() {
  static const Status status{.architectures = {}, .devices = {}, .problem = kProblem};
  return status;
}

std::string absence() { return kProblem; }
void use_device(int) {}
int device_index() { return 0; }
std::string device_id() { return {}; }
MemorySource& memory_source() { refuse(); }
void copy_to_device(void*, const void*, int64_t) { refuse(); }
void copy_to_host(void*, const void*, int64_t) { refuse(); }
void copy_on_device(void*, const void*, int64_t) { refuse(); }
void fill(void*, int, int64_t) { refuse(); }
void synchronize() { refuse(); }
void set_tf32(bool) { refuse(); }

PinnedBuffer::PinnedBuffer(int64_t) { refuse(); }
PinnedBuffer::~PinnedBuffer() = default;
void PinnedBuffer::copy_to_device(void*, int64_t, int64_t) const { refuse(); }
void PinnedBuffer::copy_from_device(int64_t, const void*, int64_t) { refuse(); }
Graph::~Graph() = default;
void Graph::record(const std::function<void()>&) { refuse(); }
void Graph::replay() const { refuse(); }
Stopwatch::~Stopwatch() = default;
void Stopwatch::start() { refuse(); }
void Stopwatch::lap() { refuse(); }
std::vector<double> Stopwatch::laps() const { refuse(); }

}  // namespace heed::cuda
