#include "autograd/anomaly.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "autograd/tape.hpp"

namespace heed {
namespace {

std::atomic<bool> anomaly_mode = false;
thread_local std::string scope_path;

struct Statistics {
  int64_t nan = 0, inf = 0;
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0;
};

Statistics measure(const Tensor& tensor) {
  Statistics s;
  for (const double v : tensor.values()) {
    if (std::isnan(v)) {
      ++s.nan;
    } else if (std::isinf(v)) {
      ++s.inf;
    } else {
      s.min = std::min(s.min, v);
      s.max = std::max(s.max, v);
      s.sum += v;
    }
  }
  return s;
}

}  // namespace

void set_detect_anomaly(bool on) { anomaly_mode = on; }
bool detect_anomaly() { return anomaly_mode; }

const std::string& current_scope() { return scope_path; }

NameScope::NameScope(const std::string& name) : length_before_(scope_path.size()) {
  if (!scope_path.empty()) scope_path += '.';
  scope_path += name;
}
NameScope::~NameScope() { scope_path.resize(length_before_); }

OutsideNameScopes::OutsideNameScopes() { std::swap(path_, scope_path); }
OutsideNameScopes::~OutsideNameScopes() { std::swap(path_, scope_path); }

std::string statistics(const Tensor& tensor) {
  const Statistics s = measure(tensor);
  const int64_t finite = tensor.numel() - s.nan - s.inf;
  const std::string range =
      finite == 0 ? "no finite value"
                  : fmt::format("min {:.4g} max {:.4g} mean {:.4g}", s.min, s.max, s.sum / static_cast<double>(finite));
  return fmt::format("{} {}: {}, {} NaN, {} Inf", tensor.shape(), tensor.dtype(), range, s.nan, s.inf);
}

void require_finite(const char* operation, const std::string& scope, const char* what, const Tensor& tensor,
                    const std::vector<Tensor>& inputs) {
  if (!is_floating(tensor.dtype())) return;
  const Statistics s = measure(tensor);
  if (s.nan == 0 && s.inf == 0) return;
  std::string text = fmt::format("anomaly: the {} of operation '{}'{}{} is the first with NaN or Inf: {}", what,
                                 operation, scope.empty() ? "" : " in ", scope, statistics(tensor));
  for (size_t i = 0; i < inputs.size(); ++i) {
    // An operation that was recorded before anomaly mode was turned on may not have kept its inputs' elements.
    if (inputs[i])
      text += fmt::format("; input {} {}", i, inputs[i].has_elements() ? statistics(inputs[i]) : "not kept");
  }
  throw DivergedError(text);
}

}  // namespace heed
