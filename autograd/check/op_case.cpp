#include "autograd/check/op_case.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/philox.hpp"

namespace heed {
namespace {

struct Declaration {
  std::string name;
  void (*declare)(OpCase&);
};
std::vector<Declaration>& declarations() {
  static std::vector<Declaration> list;
  return list;
}

uint32_t hash(const std::string& text) {
  uint32_t h = 2166136261u;  // FNV-1a
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

}  // namespace

OpCaseRegistration::OpCaseRegistration(std::string name, void (*declare)(OpCase&)) {
  declarations().push_back({std::move(name), declare});
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> list;
    for (const Declaration& declaration : declarations()) {
      OpCase op;
      op.name = declaration.name;
      declaration.declare(op);
      list.push_back(std::move(op));
    }
    std::sort(list.begin(), list.end(), [](const OpCase& a, const OpCase& b) { return a.name < b.name; });
    return list;
  }();
  return cases;
}

SampleInput normal(std::string name, const Shape& shape, double mean, double spread) {
  return {.name = std::move(name), .shape = shape, .kind = SampleInput::Kind::normal, .mean = mean, .spread = spread};
}
SampleInput away_from_zero(std::string name, const Shape& shape) {
  return {.name = std::move(name), .shape = shape, .kind = SampleInput::Kind::away_from_zero};
}
SampleInput tokens(std::string name, const Shape& shape, int32_t limit) {
  return {.name = std::move(name), .shape = shape, .kind = SampleInput::Kind::tokens, .limit = limit};
}

SampleInput vector_parameter(SampleInput input) {
  input.is_vector = true;
  return input;
}

Tensor draw(const SampleInput& input, DType dtype, uint32_t seed) {
  const RandomStream stream{.seed = seed, .site = random_site(RandomDomain::test), .step = hash(input.name)};
  const int64_t count = input.shape.numel();
  if (input.kind == SampleInput::Kind::tokens) {
    std::vector<int32_t> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(stream.word(i) % static_cast<uint32_t>(input.limit));
    }
    return from_tokens(input.shape, values);
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if (input.kind == SampleInput::Kind::normal) {
      values[i] = input.mean + input.spread * stream.normal(i);
    } else {
      const double u = 2 * stream.uniform(i) - 1;
      values[i] = std::copysign(0.1 + input.spread * std::abs(u), u);
    }
    values[i] = static_cast<double>(static_cast<float>(values[i]));  // the same values in f32 and f64
  }
  return from_values(input.shape, input.is_vector ? accumulation_dtype(dtype) : dtype, values);
}

}  // namespace heed
