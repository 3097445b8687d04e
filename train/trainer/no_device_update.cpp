// Stands in for device_update.cpp where heed is built without CUDA: Trainer never comes to it then.
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
