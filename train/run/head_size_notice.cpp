#include "train/run/head_size_notice.hpp"

#include <fmt/format.h>

namespace heed::train {

std::optional<std::string> head_size_notice(const Config& config, Device device) {
  constexpr int64_t kSmall = 16, kMostOnTensorCores = 128, kMultipleOnTensorCores = 8;
  const int64_t size = config.model.head_size();
  if (device == Device::cpu && size < kSmall) {
    // tests/bench/results/2026-12-02-head-size.md
    return fmt::format(
        "head size {} (model.d_model / model.num_heads) is small: attention takes 2.6 times as long with 8 as with "
        "32, 4.8 times with 4",
        size);
  }
  if (device == Device::cuda && config.train.precision == DType::bf16 &&
      (size > kMostOnTensorCores || size % kMultipleOnTensorCores != 0)) {
    return fmt::format(
        "head size {} (model.d_model / model.num_heads): attention does not run on tensor cores, which take "
        "multiples of {} up to {}",
        size, kMultipleOnTensorCores, kMostOnTensorCores);
  }
  return std::nullopt;
}

}  // namespace heed::train
