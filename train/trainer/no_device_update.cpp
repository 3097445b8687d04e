// Stub of device_update.cpp for builds without CUDA, in which Trainer never constructs a DeviceUpdate.
#include "train/trainer/device_update.hpp"

namespace heed::train {

DeviceUpdate::DeviceUpdate(const nn::Gpt& model, comm::GradBuckets& buckets, comm::Communicator& communicator,
                           optim::Optimizer& optimizer, const DeviceUpdateOptions&)
    : model_(model), buckets_(buckets), communicator_(communicator), optimizer_(optimizer) {
  throw DeviceError(cuda::status().problem);
}
void DeviceUpdate::start(const optim::UpdateNumbers&, const std::vector<data::Batch>&) {}
optim::UpdateNumbers DeviceUpdate::finish() { return {}; }
bool DeviceUpdate::forget_recording() { return false; }

}  // namespace heed::train
