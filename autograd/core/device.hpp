// Where a tensor lives, and the one place where an operation chooses its backend.
#pragma once

#include <string_view>

#include "autograd/core/check.hpp"

namespace heed {

enum class Device { cpu };

constexpr std::string_view name(Device) { return "cpu"; }

}  // namespace heed
