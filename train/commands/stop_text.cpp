#include "train/commands/stop_text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace heed::train {

std::string StopText::push(const std::string& text) {
  if (stopped_) return {};
  held_ += text;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  stopped_ = end != std::string::npos;
  if (stopped_) return std::exchange(held_, {}).substr(0, end);
  // The longest end of the text with which a stop text begins.
  size_t kept = 0;
  for (const std::string& stop : stops_) {
    size_t length = std::min(held_.size(), stop.size() - 1);
    while (!std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) --length;
    kept = std::max(kept, length);
  }
  std::string ready = held_.substr(0, held_.size() - kept);
  held_.erase(0, ready.size());
  return ready;
}

std::string StopText::finish() { return std::exchange(held_, {}); }

}  // namespace heed::train
