// Stub of cuda_step.cpp for builds without CUDA, in which Trainer never constructs a CudaStep.
#include "train/trainer/cuda_step.hpp"

namespace heed::train {

CudaStep::CudaStep(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
                   optim::Optimizer& optimizer, const CudaStepOptions&)
    : model_(model), buckets_(buckets), communicator_(communicator), optimizer_(optimizer) {
  throw DeviceError(cuda::status().problem);
}
void CudaStep::start(const optim::StepState&, const std::vector<data::Batch>&) {}
optim::StepState CudaStep::finish() { return {}; }
bool CudaStep::reset_graph() { return false; }

}  // namespace heed::train
