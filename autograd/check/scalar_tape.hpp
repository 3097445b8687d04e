// Var<T>: a scalar with reverse-mode autodiff on its own tape. A reference formula that is a template on its
// scalar type thus also returns its gradient, in f32 and f64, independently of every kernel and of the tensor tape.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace heed {

template <class T>
class Var {
 public:
  Var() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> Var(Number value) : value_(static_cast<T>(value)) {}
  static Var leaf(T value) { return Var(value, append(-1, 0, -1, 0)); }
  static Var made(T value, const Var& a, T da) { return made(value, a, da, Var(), 0); }
  static Var made(T value, const Var& a, T da, const Var& b, T db) {
    const bool constant = a.index_ < 0 && b.index_ < 0;
    return constant ? Var(value) : Var(value, append(a.index_, da, b.index_, db));
  }

  T value() const { return value_; }

  // d (sum of cotangent[i] * outputs[i]) / d leaf for each leaf; then clears the tape.
  static std::vector<T> gradients(const std::vector<Var>& outputs, const std::vector<T>& cotangent,
                                  const std::vector<Var>& leaves) {
    std::vector<T> adjoint(steps().size(), T(0));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].index_ >= 0) adjoint[static_cast<size_t>(outputs[i].index_)] += cotangent[i];
    }
    for (size_t i = steps().size(); i-- > 0;) {
      const Step& step = steps()[i];
      if (step.a >= 0) adjoint[static_cast<size_t>(step.a)] += adjoint[i] * step.da;
      if (step.b >= 0) adjoint[static_cast<size_t>(step.b)] += adjoint[i] * step.db;
    }
    std::vector<T> result;
    for (const Var& leaf : leaves) result.push_back(adjoint[static_cast<size_t>(leaf.index_)]);
    steps().clear();
    return result;
  }

 private:
  struct Step {
    int64_t a, b;
    T da, db;
  };

  Var(T value, int64_t index) : value_(value), index_(index) {}
  static std::vector<Step>& steps() { return steps_; }
  static int64_t append(int64_t a, T da, int64_t b, T db) {
    steps().push_back({a, b, da, db});
    return static_cast<int64_t>(steps().size()) - 1;
  }

  static inline thread_local std::vector<Step> steps_;

  T value_ = 0;
  int64_t index_ = -1;  // -1: a constant
};

template <class T>
Var<T> operator+(const Var<T>& a, const Var<T>& b) {
  return Var<T>::made(a.value() + b.value(), a, 1, b, 1);
}
template <class T>
Var<T> operator-(const Var<T>& a, const Var<T>& b) {
  return Var<T>::made(a.value() - b.value(), a, 1, b, -1);
}
template <class T>
Var<T> operator*(const Var<T>& a, const Var<T>& b) {
  return Var<T>::made(a.value() * b.value(), a, b.value(), b, a.value());
}
template <class T>
Var<T> operator/(const Var<T>& a, const Var<T>& b) {
  const T quotient = a.value() / b.value();
  return Var<T>::made(quotient, a, 1 / b.value(), b, -quotient / b.value());
}
template <class T>
Var<T>& operator+=(Var<T>& a, const Var<T>& b) {
  return a = a + b;
}
template <class T>
bool operator<(const Var<T>& a, const Var<T>& b) {
  return a.value() < b.value();
}
template <class T>
bool operator>(const Var<T>& a, const Var<T>& b) {
  return b < a;
}
template <class T>
Var<T> exp(const Var<T>& a) {
  const T e = std::exp(a.value());
  return Var<T>::made(e, a, e);
}
template <class T>
Var<T> log(const Var<T>& a) {
  return Var<T>::made(std::log(a.value()), a, 1 / a.value());
}
template <class T>
Var<T> sqrt(const Var<T>& a) {
  const T root = std::sqrt(a.value());
  return Var<T>::made(root, a, T(0.5) / root);
}
template <class T>
Var<T> tanh(const Var<T>& a) {
  const T t = std::tanh(a.value());
  return Var<T>::made(t, a, 1 - t * t);
}

template <class T>
Var<T> erf(const Var<T>& a) {
  constexpr double kTwoByRootPi = 1.1283791670955126;
  return Var<T>::made(std::erf(a.value()), a, static_cast<T>(kTwoByRootPi) * std::exp(-a.value() * a.value()));
}

}  // namespace heed
