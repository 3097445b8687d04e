#include "tests/support/op_runs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/core/philox.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

constexpr uint32_t kSeed = 7;

Values cotangent(int64_t count) {
  const RandomStream stream{.seed = kSeed, .site = random_site(RandomDomain::test, 1), .step = 0};
  Values w;
  for (int64_t i = 0; i < count; ++i) w.push_back(static_cast<float>(stream.normal(static_cast<uint64_t>(i))));
  return w;
}

std::vector<Values> gradients_of(const Tensors& inputs) {
  std::vector<Values> gradients;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) continue;
    gradients.push_back(input.grad() ? input.grad().values() : Values(static_cast<size_t>(input.numel()), 0.0));
  }
  return gradients;
}

template <class S>
ReferenceInputs<S> reference_inputs(const OpSample& sample, const Tensors& tensors, std::vector<S>* leaves) {
  ReferenceInputs<S> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    ReferenceInput<S> input{.shape = tensors[i].shape(), .values = {}, .tokens = {}};
    for (const double v : tensors[i].values()) {
      if (sample.inputs[i].kind == SampleInput::Kind::tokens) {
        input.tokens.push_back(static_cast<int32_t>(v));
      } else {
        using T = decltype(S().value());
        input.values.push_back(S::leaf(static_cast<T>(v)));
        leaves->push_back(input.values.back());
      }
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

template <class T>
const ReferenceOf<Var<T>>& gradient_reference(const OpSample& sample) {
  if constexpr (std::is_same_v<T, float>) {
    return sample.reference.f32_gradient;
  } else {
    return sample.reference.f64_gradient;
  }
}

void expect_rounded(const Values& got, const Values& exact, double floor, const std::string& what) {
  ASSERT_EQ(got.size(), exact.size());
  const double least = floor * largest(exact);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - exact[i]), kBf16Epsilon * std::max(std::abs(exact[i]), least))
        << what << "[" << i << "]";
  }
}

void expect_kept(const Values& got, const Values& want, double poison, const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(poison) && std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << what << "[" << i << "] is " << got[i] << ", it must be NaN";
    } else if (!std::isfinite(want[i])) {
      EXPECT_FALSE(std::isfinite(got[i])) << what << "[" << i << "] is " << got[i] << ", it must not be finite";
    }
  }
}

// Where the plain formula makes a non-finite value out of it, the operation must too.
// The formula runs once: the rounding of the inputs does not change where its values are finite.
void expect_spread(const OpSample& sample, const std::vector<Place>& places, size_t input, double poison) {
  const auto poisoned = [&](const Place& place) {
    Tensors tensors = draw_all(sample, place);
    Values values = tensors[input].values();
    values[values.size() / 2] = poison;
    tensors[input] = from_values(tensors[input].shape(), tensors[input].dtype(), values, place.device);
    tensors[input].set_requires_grad(true);
    return tensors;
  };
  const OpResult plain = run_reference<double>(sample, poisoned({DType::f64}));
  for (const Place& place : places) {
    SCOPED_TRACE(name(place.dtype));
    const OpResult op = run(sample, poisoned(place));
    expect_kept(op.y, plain.y, poison, "y");
    for (size_t i = 0; i < op.gradients.size(); ++i) {
      expect_kept(op.gradients[i], plain.gradients[i], poison, "gradient " + std::to_string(i));
    }
  }
}

bool is_differentiable(const SampleInput& input) { return input.wants_gradient() && input.shape.numel() > 0; }

}  // namespace

void PrintTo(const Item& item, std::ostream* out) { *out << item.op->name << " " << item.sample->label; }

std::vector<Item> all_items() {
  std::vector<Item> items;
  for (const OpCase& op : op_cases()) {
    for (const OpSample& sample : op.samples) items.push_back({&op, &sample});
  }
  return items;
}

std::string item_name(const testing::TestParamInfo<Item>& info) {
  std::string name = info.param.op->name + "_" + info.param.sample->label;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name + "_" + std::to_string(info.index);
}

Tensors draw_all(const OpSample& sample, const Place& place, bool wants_gradients) {
  Tensors tensors;
  for (const SampleInput& input : sample.inputs) {
    tensors.push_back(draw(input, place.dtype, kSeed).to(place.device));
    if (wants_gradients && input.wants_gradient()) tensors.back().set_requires_grad(true);
  }
  return tensors;
}

OpResult run(const OpSample& sample, const Tensors& inputs) {
  const Tensor y = sample.run(inputs);
  OpResult result{.y = y.values(), .dy = from_values(y.shape(), y.dtype(), cotangent(y.numel()), y.device())};
  if (y.requires_grad()) backward(y, result.dy);
  result.gradients = gradients_of(inputs);
  return result;
}

OpResult run(const OpSample& sample, const Place& place) { return run(sample, draw_all(sample, place)); }

template <class T>
OpResult run_reference(const OpSample& sample, const Tensors& tensors, const Tensor& dy) {
  std::vector<Var<T>> leaves;
  const std::vector<Var<T>> y = gradient_reference<T>(sample)(reference_inputs<Var<T>>(sample, tensors, &leaves));
  OpResult result;
  for (const Var<T>& v : y) result.y.push_back(static_cast<double>(v.value()));
  const Values w = dy ? dy.values() : cotangent(static_cast<int64_t>(y.size()));
  const std::vector<T> flat = Var<T>::gradients(y, std::vector<T>(w.begin(), w.end()), leaves);
  auto next = flat.begin();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (sample.inputs[i].kind == SampleInput::Kind::tokens) continue;
    const auto end = next + tensors[i].numel();
    result.gradients.emplace_back(next, end);
    next = end;
  }
  return result;
}
template OpResult run_reference<float>(const OpSample&, const Tensors&, const Tensor&);
template OpResult run_reference<double>(const OpSample&, const Tensors&, const Tensor&);

double largest(const Values& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

double distance(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= most)) most = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return most;
}

void expect_equal(const OpResult& a, const OpResult& b) {
  ASSERT_EQ(a.y.size(), b.y.size());
  EXPECT_TRUE(a.y.empty() || std::memcmp(a.y.data(), b.y.data(), a.y.size() * sizeof(double)) == 0);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) EXPECT_EQ(a.gradients[i], b.gradients[i]) << "gradient " << i;
}

void expect_f32_as_exact_as_plain(const OpSample& sample, Device device) {
  const OpResult exact = run(sample, Place{DType::f64});
  const OpResult op = run(sample, Place{DType::f32, device});
  const OpResult plain = run_reference<float>(sample, draw_all(sample, {DType::f32}));
  const auto bound = [&](const Values& plain_values, const Values& exact_values) {
    return kF32Slack * distance(plain_values, exact_values) +
           kF32Roundings * kF32Epsilon * std::max(largest(exact_values), sample.term_size);
  };
  EXPECT_LE(distance(op.y, exact.y), bound(plain.y, exact.y));
  ASSERT_EQ(op.gradients.size(), exact.gradients.size());
  for (size_t i = 0; i < op.gradients.size(); ++i) {
    EXPECT_LE(distance(op.gradients[i], exact.gradients[i]), bound(plain.gradients[i], exact.gradients[i]))
        << "gradient " << i;
  }
}

// An operation computes in f32, except for the operands of bf16 instructions, and rounds each result once.
void expect_bf16_rounds_once(const OpSample& sample, Device device) {
  const Tensors inputs = draw_all(sample, {DType::bf16, device});
  const OpResult op = run(sample, inputs);
  const OpResult plain = run_reference<double>(sample, inputs, op.dy);
  const bool rounds_twice =
      device == Device::cuda ? sample.rounds_between_products : sample.cpu_rounds_between_products;
  expect_rounded(op.y, plain.y, rounds_twice ? kBf16ResultFloor : kBf16Floor, "y");
  const double floor = sample.backward_reads_result ? kBf16ResultFloor : kBf16Floor;
  ASSERT_EQ(op.gradients.size(), plain.gradients.size());
  for (size_t i = 0; i < op.gradients.size(); ++i) {
    expect_rounded(op.gradients[i], plain.gradients[i], floor, "gradient " + std::to_string(i));
  }
}

void expect_nan_and_inf_show(const OpSample& sample, const std::vector<Place>& places) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    if (!is_differentiable(sample.inputs[i])) continue;
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInf, -kInf}) {
      SCOPED_TRACE(testing::Message() << sample.inputs[i].name << " holds " << poison);
      expect_spread(sample, places, i, poison);
    }
  }
}

void expect_inputs_unchanged_and_same_bits(const OpSample& sample, const Place& place) {
  SCOPED_TRACE(name(place.dtype));
  const Tensors inputs = draw_all(sample, place);
  std::vector<Values> before;
  for (const Tensor& input : inputs) before.push_back(input.values());
  const OpResult first = run(sample, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(before[i], inputs[i].values()) << "input " << i << " changed";
  expect_equal(first, run(sample, place));
}

void expect_two_passes_add_up(const OpSample& sample, Device device) {
  const OpResult once = run(sample, Place{DType::f32, device});
  const Tensors inputs = draw_all(sample, {DType::f32, device});
  run(sample, inputs);
  const OpResult twice = run(sample, inputs);
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    Values doubled = once.gradients[i];
    for (double& v : doubled) v *= 2;
    // Kernels that add may sum in another order.
    EXPECT_LE(distance(twice.gradients[i], doubled), kF32Roundings * kF32Epsilon * std::max(largest(doubled), 1e-3));
  }
}

void expect_one_gradient_alone_is_the_same(const OpSample& sample, Device device) {
  const OpResult all = run(sample, Place{DType::f32, device});
  size_t order = 0;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    if (!sample.inputs[i].wants_gradient()) continue;
    const Tensors inputs = draw_all(sample, {DType::f32, device}, false);
    inputs[i].set_requires_grad(true);
    const OpResult alone = run(sample, inputs);
    ASSERT_EQ(alone.gradients.size(), 1u);
    EXPECT_LE(distance(alone.gradients[0], all.gradients[order]),
              kF32Roundings * kF32Epsilon * std::max(largest(all.gradients[order]), 1e-3));
    for (size_t j = 0; j < inputs.size(); ++j) EXPECT_TRUE(j == i || !inputs[j].grad());
    ++order;
  }
}

}  // namespace heed::test
