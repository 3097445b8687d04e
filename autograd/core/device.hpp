// The device whose memory holds a tensor.
#pragma once

#include <string_view>

namespace heed {

enum class Device { cpu, cuda };

constexpr std::string_view name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

}  // namespace heed
