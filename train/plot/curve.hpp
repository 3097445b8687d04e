// Curves of metrics.csv, prepared for drawing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "train/run/metrics.hpp"

namespace heed::train {

struct CurvePoint {
  int64_t step = 0;
  double value = 0;
  double sd = 0;  // of mean_curve()
};
using Curve = std::vector<CurvePoint>;

// Whether a picture can show the value: it is finite, and axes up to it and its square do not overflow.
bool is_drawable(double value);

// A column over the steps. Rows without a drawable value are left out.
Curve curve_of(const std::vector<MetricsRow>& rows,
               const std::function<std::optional<double>(const MetricsRow&)>& column);

// The centred moving average, at the steps 1, 1 + stride, …, which are the same for all runs:
//   m_i = mean of y_(i-h) … y_(i+h),   h = half_window, or i near the start, where a loss is steep
// Near the end the window is cut off. It does not lag as an exponential moving average does.
Curve smoothed(const Curve& curve, size_t half_window, int64_t stride);

// At most `limit` points, at least 4: of each group of neighbours the lowest and the highest, so that a spike of one
// step stays visible; and the first and the last point. A shorter curve is returned unchanged.
Curve thinned(const Curve& curve, size_t limit);

// Mean and sample standard deviation (n - 1) of several runs, at each step for which at least one of them has a value;
// sd is 0 where only one has.
Curve mean_curve(const std::vector<Curve>& curves);

}  // namespace heed::train
