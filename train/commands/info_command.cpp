#include "train/commands/commands.hpp"

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cpu/build_info.hpp"
#include "autograd/cpu/parallel.hpp"
#include "train/comm/backend.hpp"
#include "train/output/output.hpp"
#include "train/run/version.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

void print_cuda() {
  const cuda::Status& status = cuda::status();
  if (status.architectures.empty()) {
    print("CUDA          off: {}\n", status.problem);
    return;
  }
  print("CUDA          code for {}\n", status.architectures);
  for (const cuda::DeviceInfo& device : status.devices) {
    print("device        {} ({}, {})\n", device.name, device.architecture, human_bytes(device.memory_bytes));
  }
  if (!status.problem.empty()) print("device        none: {}\n", status.problem);
}

}  // namespace

void run_info() {
  print("heed          {}\n", kVersion);
#if defined(__clang__)
  print("compiler      clang {}\n", __clang_version__);
#else
  print("compiler      g++ {}\n", __VERSION__);
#endif
  print("CPU           {} by {}, vectors {}, GEMM by {}\n", cpu::describe_threads(), cpu::thread_library(),
        cpu::instruction_set(), cpu::gemm_library());
  print_cuda();
  const std::string mpi = comm::mpi_library(), nccl = comm::nccl_version();
  print("ranks         {}, {}\n", mpi.empty() ? "no MPI in this build" : "by " + mpi,
        nccl.empty() ? "no NCCL in this build" : "NCCL " + nccl);
}

}  // namespace heed::train
