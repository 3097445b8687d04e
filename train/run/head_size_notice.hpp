// Advice on the head size, d_model / num_heads, at the start of a run.
#pragma once

#include <optional>
#include <string>

#include "autograd/core/device.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// On the CPU for heads below 16 columns, which make attention slow; on CUDA in bf16 for heads that its tensor-core
// kernels do not take (autograd/ops/attention/cuda/attention.cu).
std::optional<std::string> head_size_notice(const Config& config, Device device);

}  // namespace heed::train
