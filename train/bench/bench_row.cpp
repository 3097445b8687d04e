#include "train/bench/bench_row.hpp"

#include <algorithm>
#include <cstring>

#include "train/output/json.hpp"

namespace heed::train {

std::string BenchRow::label() const {
  return fmt::format("{}{}{}{}", operation, shapes.empty() ? "" : " ", shapes, is_backward ? " backward" : "");
}

double BenchRow::per_second(double work) const { return seconds > 0 ? work / seconds : 0; }

double BenchRow::share_of(const Ceilings& ceilings) const {
  return std::max(per_second(flops) / ceilings.flops_per_s, per_second(bytes) / ceilings.bytes_per_s);
}

std::string BenchRow::rates(const Ceilings& ceilings) const {
  const auto rate = [&](double work, const char* unit) {
    return work == 0 ? std::string(8 + std::strlen(unit), ' ')
                     : fmt::format("{:>8.1f}{}", per_second(work) / 1e9, unit);
  };
  const double share = share_of(ceilings);
  return fmt::format("{}{}{}", rate(flops, " GFLOP/s"), rate(bytes, " GB/s"),
                     share == 0 ? "" : fmt::format(" {:>5.0f} %", share * 100));
}

std::string BenchRow::json(const Ceilings& ceilings) const {
  return json::object({{"operation", json::text(operation)},
                       {"shapes", json::text(shapes)},
                       {"direction", json::text(is_backward ? "backward" : "forward")},
                       {"calls", json::number(calls)},
                       {"seconds", json::number(seconds)},
                       {"gflop_per_s", json::number(per_second(flops) / 1e9)},
                       {"gb_per_s", json::number(per_second(bytes) / 1e9)},
                       {"share_of_ceiling", json::number(share_of(ceilings))}});
}

}  // namespace heed::train
