#include "train/plot/curve.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace heed::train {

bool is_drawable(double value) { return std::abs(value) < 1e100; }

Curve curve_of(const std::vector<MetricsRow>& rows,
               const std::function<std::optional<double>(const MetricsRow&)>& column) {
  Curve curve;
  for (const MetricsRow& row : rows) {
    const std::optional<double> value = column(row);
    if (value && is_drawable(*value)) curve.push_back({.step = row.step, .value = *value});
  }
  return curve;
}

Curve smoothed(const Curve& curve, size_t half_window, int64_t stride) {
  Curve result;
  for (size_t i = 0; i < curve.size(); ++i) {
    if ((curve[i].step - 1) % stride != 0) continue;
    const size_t before = std::min(half_window, i), after = std::min(before, curve.size() - 1 - i);
    double sum = 0;
    for (size_t j = i - before; j <= i + after; ++j) sum += curve[j].value;
    result.push_back({.step = curve[i].step, .value = sum / static_cast<double>(before + after + 1)});
  }
  return result;
}

Curve thinned(const Curve& curve, size_t limit) {
  if (curve.size() <= limit) return curve;
  const size_t groups = (limit - 2) / 2, inner = curve.size() - 2;
  Curve result{curve.front()};
  for (size_t i = 0; i < groups; ++i) {
    const auto begin = curve.begin() + 1 + static_cast<std::ptrdiff_t>(i * inner / groups);
    const auto end = curve.begin() + 1 + static_cast<std::ptrdiff_t>((i + 1) * inner / groups);
    const auto is_lower = [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; };
    const auto [low, high] = std::minmax_element(begin, end, is_lower);
    result.push_back(*std::min(low, high));
    if (low != high) result.push_back(*std::max(low, high));
  }
  result.push_back(curve.back());
  return result;
}

Curve mean_curve(const std::vector<Curve>& curves) {
  if (curves.size() == 1) return curves.front();
  // Welford's algorithm, with the sum of squared deviations in sd.
  std::map<int64_t, std::pair<int64_t, CurvePoint>> at_step;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve) {
      auto& [count, mean] = at_step[point.step];
      mean.step = point.step;
      const double before = point.value - mean.value;
      mean.value += before / static_cast<double>(++count);
      mean.sd += before * (point.value - mean.value);
    }
  }
  Curve result;
  for (auto& [step, entry] : at_step) {
    auto& [count, mean] = entry;
    mean.sd = count > 1 ? std::sqrt(mean.sd / static_cast<double>(count - 1)) : 0;
    result.push_back(mean);
  }
  return result;
}

}  // namespace heed::train
