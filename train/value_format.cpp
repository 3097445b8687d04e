#include "train/value_format.hpp"

#include <cmath>
#include <limits>

namespace heed::train {
namespace {

// The value if it is a T and passes.
template <class T, class Passes>
std::optional<T> get_if_passing(const ConfigValue& value, Passes passes) {
  const T* held = std::get_if<T>(&value.data);
  return held && passes(*held) ? std::optional<T>(*held) : std::nullopt;
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7F; }

}  // namespace

ValueFormat<int64_t> integer(int64_t low, int64_t high) {
  const auto read = [=](const ConfigValue& value) {
    return get_if_passing<int64_t>(value, [=](int64_t held) { return low <= held && held <= high; });
  };
  const auto write = [](const int64_t& value) { return fmt::format("{}", value); };
  return {fmt::format("an integer from {} to {}", low, high), read, write};
}

ValueFormat<double> number(double low, double high) {
  const auto read = [=](const ConfigValue& value) {
    const auto* whole = std::get_if<int64_t>(&value.data);
    const ConfigValue widened = whole ? ConfigValue{static_cast<double>(*whole)} : value;
    return get_if_passing<double>(widened, [=](double held) { return low <= held && held <= high; });
  };
  return {fmt::format("a number from {} to {}", low, high), read, format_number};
}

ValueFormat<uint32_t> seed_number() {
  const ValueFormat<int64_t> wide = integer(0, std::numeric_limits<uint32_t>::max());
  const auto read = [wide](const ConfigValue& value) -> std::optional<uint32_t> {
    const std::optional<int64_t> seed = wide.read(value);
    return seed ? std::optional(static_cast<uint32_t>(*seed)) : std::nullopt;
  };
  return {wide.allowed, read, [](const uint32_t& value) { return fmt::format("{}", value); }};
}

ValueFormat<bool> boolean() {
  const auto read = [](const ConfigValue& value) { return get_if_passing<bool>(value, [](bool) { return true; }); };
  return {"true or false", read, [](const bool& value) { return value ? "true" : "false"; }};
}

ValueFormat<std::string> path_name() {
  const auto read = [](const ConfigValue& value) {
    return get_if_passing<std::string>(
        value, [](const std::string& held) { return std::none_of(held.begin(), held.end(), is_control); });
  };
  return {"a string without control characters", read, [](const std::string& value) { return quote(value); }, true};
}

}  // namespace heed::train
