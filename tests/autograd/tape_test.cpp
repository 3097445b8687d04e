#include "autograd/tape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "autograd/check/scalar_tape.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/plain_ops.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

TEST(Tape, Diamond) {
  const Tensor x = leaf({2}, {3, -1});
  const Tensor a = scaled(x, 2), b = scaled(x, 3);
  backward(times(a, b), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{36, -12}));  // d 6 x^2 = 12 x
}

TEST(Tape, SameTensorTwiceInOneOperation) {
  using Op = std::function<Tensor(const Tensor&)>;
  struct Case {
    const char* name;
    Op op;
    Values gradient;
  };
  for (const Case& c : {Case{"pass", [](const Tensor& t) { return plus(t, t); }, {2, 2}},
                        Case{"fresh", [](const Tensor& t) { return times(t, t); }, {6, -2}},
                        Case{"sink", [](const Tensor& t) { return weighted(t, 5, t, 7); }, {12, 12}}}) {
    SCOPED_TRACE(c.name);
    const Tensor x = leaf({2}, {3, -1});
    backward(c.op(x), full({2}, DType::f64, 1));
    EXPECT_EQ(x.grad().values(), c.gradient);
    // The same behind another operation, where the gradient is not a leaf's.
    const Tensor z = leaf({2}, {1.5, -0.5});
    backward(c.op(scaled(z, 2)), full({2}, DType::f64, 1));
    EXPECT_EQ(z.grad().values(), (Values{2 * c.gradient[0], 2 * c.gradient[1]}));
  }
}

// A gradient handed on by alias() has several owners; adding into it in place would change the others'.
TEST(Tape, HandedOnGradientsAreNotCorrupted) {
  const Tensor x = leaf({3}, {1, 2, 3}), y = leaf({3}, {4, 5, 6});
  const Tensor cotangent = from_values({3}, DType::f64, {1, 10, 100});
  const Tensor h = scaled(x, 1), k = scaled(y, 1);
  // Backward meets them from the last: both sums share dy, then h gets more, by sink, by fresh and by pass.
  const Tensor more = plus(weighted(h, 2, h, 3), plus(times(h, h), h));
  backward(plus(plus(h, k), more), cotangent);
  EXPECT_EQ(cotangent.values(), (Values{1, 10, 100})) << "the caller's gradient changed";
  EXPECT_EQ(y.grad().values(), (Values{1, 10, 100}));
  EXPECT_EQ(x.grad().values(), (Values{1 * (7 + 2.0), 10 * (7 + 4.0), 100 * (7 + 6.0)}));
}

TEST(Tape, ResidualChain) {
  for (const bool keep_handles : {false, true}) {
    const Tensor x = leaf({2}, {1, -1});
    std::vector<Tensor> kept;
    Tensor h = x;
    for (int i = 0; i < 20; ++i) {
      h = plus(h, scaled(h, 0.5));
      if (keep_handles) kept.push_back(h);
    }
    backward(h, full({2}, DType::f64, 1));
    const double want = std::pow(1.5, 20);
    for (const double g : x.grad().values()) EXPECT_NEAR(g, want, kF64 * want);
  }
}

// The same random graph twice: of tensors with one element, and of scalars that differentiate themselves.
struct RandomGraph {
  using Scalar = Var<double>;
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
  size_t leaves = 3;

  explicit RandomGraph(uint32_t seed) : random_{.seed = seed, .site = random_site(RandomDomain::test), .step = 0} {
    for (const double value : some_values(static_cast<int64_t>(leaves), seed)) {
      tensors.push_back(leaf({1}, {value / 2}));
      scalars.push_back(Scalar::leaf(value / 2));
    }
    for (int step = 0; step < 12; ++step) grow();
    tensors.push_back(plus(tensors.back(), tensors[leaves]));
    scalars.push_back(scalars.back() + scalars[leaves]);
  }

 private:
  void grow() {
    const size_t i = draw(tensors.size()), j = draw(tensors.size());
    const Tensor a = tensors[i], b = tensors[j];
    const Scalar u = scalars[i], v = scalars[j];
    const size_t kind = draw(4);
    tensors.push_back(kind == 0   ? plus(a, b)
                      : kind == 1 ? times(a, b)
                      : kind == 2 ? weighted(a, 0.5, b, -0.3)
                                  : scaled(a, 0.7));
    scalars.push_back(kind == 0   ? u + v
                      : kind == 1 ? u * v
                      : kind == 2 ? u * Scalar(0.5) + v * Scalar(-0.3)
                                  : u * Scalar(0.7));
  }
  size_t draw(size_t limit) { return random_.word(drawn_++) % limit; }

  RandomStream random_;
  uint64_t drawn_ = 0;
};

// Every way to hand gradients over meets every other, with handles on the tensors between dropped or kept.
TEST(Tape, RandomGraphsMatchTheScalarTape) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph graph(seed);
    const auto after_leaves = static_cast<std::ptrdiff_t>(graph.leaves);
    const std::vector<Tensor> leaves(graph.tensors.begin(), graph.tensors.begin() + after_leaves);
    const Tensor result = graph.tensors.back();
    if (seed % 2 == 0) graph.tensors.clear();
    backward(result);
    const Values want = Var<double>::gradients({graph.scalars.back()}, {1.0},
                                               {graph.scalars.begin(), graph.scalars.begin() + after_leaves});
    for (size_t i = 0; i < leaves.size(); ++i) {
      const double got = leaves[i].grad() ? leaves[i].grad().item() : 0.0;
      EXPECT_NEAR(got, want[i], kF64 * std::max(1.0, std::abs(want[i]))) << "leaf " << i;
    }
  }
  EXPECT_EQ(live_nodes(), 0);
}

TEST(Tape, LeavesAddIntoThePresetSlice) {
  const Tensor flat = full({7}, DType::f64, 100);
  const Tensor a = leaf({2}, {3, -1}), b = leaf({2}, {5, 2});
  a.set_grad(flat.slice(1, {2}));
  b.set_grad(flat.slice(4, {2}));
  const double* place = a.grad().data<double>();
  const auto loss = [&] { return total(weighted(times(a, b), 1, plus(a, a), 1)); };
  backward(loss());
  EXPECT_EQ(flat.values(), (Values{100, 107, 104, 100, 103, 99, 100}));
  backward(loss());
  EXPECT_EQ(flat.values(), (Values{100, 114, 108, 100, 106, 98, 100}));
  EXPECT_EQ(a.grad().data<double>(), place);
  // A leaf that is itself the result.
  backward(a, from_values({2}, DType::f64, {1, 2}));
  EXPECT_EQ(flat.values(), (Values{100, 115, 110, 100, 106, 98, 100}));
}

// The old gradient is NaN, so a kernel that adds to it gives NaN.
TEST(Tape, AResetGradientStandsForZeros) {
  using Op = std::function<Tensor(const Tensor&)>;
  const Op pass = [](const Tensor&t) { return plus(t, t); }, fresh = [](const Tensor&t) { return times(t, t); },
           sink = [](const Tensor&t) { return scaled(t, 4); },
           sink_twice = [](const Tensor&t) { return weighted(t, 5, t, 7); };
  for (const Op& op : {pass, fresh, sink, sink_twice}) {
    const Tensor flat = full({6}, DType::f64, std::nan("")), one = full({2}, DType::f64, 1);
    const Tensor x = leaf({2}, {3, -1}), unused = leaf({2}, {1, 2}), plain = leaf({2}, {3, -1});
    x.set_grad(flat.slice(1, {2}));
    unused.set_grad(flat.slice(3, {2}));
    for (int step = 0; step < 2; ++step) {
      plain.set_grad(Tensor());
      for (const Tensor& tensor : {x, unused}) tensor.reset_grad();
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        backward(op(x), one);
        backward(op(plain), one);
        EXPECT_EQ(flat.slice(1, {2}).values(), plain.grad().values());
      }
      EXPECT_EQ(unused.grad().values(), (Values{0, 0}));
    }
    EXPECT_EQ(x.grad().data<double>(), flat.data<double>() + 1);
    EXPECT_TRUE(std::isnan(flat.values()[0]) && std::isnan(flat.values()[5]));
  }
}

TEST(Tape, AResetGradientOfAnOperationThatFailsIsZero) {
  const Tensor x = leaf({2}, {1, 2});
  x.set_grad(full({2}, DType::f64, 7));
  x.reset_grad();
  const Tensor y = record("broken", Output({2}, DType::f64, Device::cpu), {x}, [](const Tensor&, Gradients& gradients) {
    EXPECT_FALSE(gradients.sink(0).add);
    throw ValueError("broken on purpose");
  });
  EXPECT_THROW(backward(y, full({2}, DType::f64, 1.0)), ValueError);
  EXPECT_EQ(x.grad().values(), (Values{0, 0}));
}

TEST(Tape, ALeafsGradientIsItsOwn) {
  const Tensor x = leaf({2}, {1, 2}), y = leaf({2}, {1, 2});
  const Tensor cotangent = full({2}, DType::f64, 1);
  backward(plus(x, y), cotangent);
  backward(plus(x, y), cotangent);
  EXPECT_EQ(x.grad().values(), (Values{2, 2}));
  EXPECT_EQ(y.grad().values(), (Values{2, 2}));
  EXPECT_EQ(cotangent.values(), (Values{1, 1}));
  const Tensor result_itself = leaf({2}, {1, 2});
  backward(result_itself, cotangent);
  backward(result_itself, cotangent);
  EXPECT_EQ(result_itself.grad().values(), (Values{2, 2}));
  EXPECT_EQ(cotangent.values(), (Values{1, 1}));
}

TEST(Tape, OnlyNeededGradientsAreComputed) {
  const Tensor x = leaf({2}, {1, 2}), constant = from_values({2}, DType::f64, {3, 4}), unused = leaf({2}, {1, 1});
  std::vector<bool> needed;
  const Tensor y = record("probe", Output({2}, DType::f64, Device::cpu), {x, constant, Tensor()},
                          [&](const Tensor& dy, Gradients& gradients) {
                            for (const size_t i : {0, 1, 2}) needed.push_back(gradients.needed(i));
                            gradients.alias(0, dy);
                            gradients.alias(1, dy);
                            EXPECT_FALSE(gradients.fresh(1));
                            EXPECT_FALSE(gradients.sink(1));
                            EXPECT_FALSE(gradients.sink(2));
                            EXPECT_FALSE(grad_enabled()) << "operations inside backward are not recorded";
                          });
  backward(y, full({2}, DType::f64, 1));
  EXPECT_EQ(needed, (std::vector<bool>{true, false, false}));
  EXPECT_TRUE(x.grad());
  EXPECT_FALSE(constant.grad());
  EXPECT_FALSE(unused.grad());
}

TEST(Tape, SecondBackwardIsAnError) {
  const Tensor x = leaf({2}, {1, 2});
  const Tensor h = scaled(x, 2);
  const Tensor loss = total(h), other = total(h);
  backward(loss);
  EXPECT_EQ(x.grad().values(), (Values{2, 2}));
  expect_error<GraphError>([&] { backward(loss); }, "'total' was freed");
  expect_error<GraphError>([&] { backward(other); }, "'scaled' was freed");
  EXPECT_EQ(x.grad().values(), (Values{2, 2})) << "a refused backward changed a gradient";
}

TEST(Tape, NothingIsRecordedWithoutNeed) {
  const Tensor x = leaf({2}, {1, 2});
  {
    const NoGradGuard no_grad;
    EXPECT_FALSE(scaled(x, 2).requires_grad());
    {
      const GradModeGuard again(true);
      EXPECT_TRUE(scaled(x, 2).requires_grad());
    }
    EXPECT_FALSE(grad_enabled());
    bool other_thread = false;
    std::thread([&] { other_thread = grad_enabled(); }).join();
    EXPECT_TRUE(other_thread) << "the mode is the thread's own";
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_FALSE(scaled(x.detach(), 2).requires_grad());
  EXPECT_EQ(live_nodes(), 0);
  expect_error<GraphError>([&] { backward(total(x.detach())); }, "nothing below the result requires a gradient");
}

TEST(Tape, LiveNodesGoBackToZero) {
  const Tensor x = leaf({2}, {1, 2});
  {
    const Tensor h = scaled(x, 2);
    const Tensor y = plus(h, h);
    EXPECT_EQ(live_nodes(), 2);
  }
  EXPECT_EQ(live_nodes(), 0) << "a forward without backward";
  {
    const Tensor loss = total(plus(scaled(x, 2), x));
    EXPECT_EQ(live_nodes(), 3);
    backward(loss);
    EXPECT_EQ(live_nodes(), 1) << "the loss holds its own node only";
  }
  EXPECT_EQ(live_nodes(), 0);
}

TEST(Tape, BackwardFreesActivationsAsItGoes) {
  const Tensor x = leaf({4096}, some_values(4096, 1));
  Tensor h = x;
  for (int i = 0; i < 10; ++i) h = times(h, h);
  const auto in_use = [] {
    return memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::activations)].current_bytes;
  };
  const int64_t before = in_use();
  backward(h, full({4096}, DType::f64, 1));
  // Nine intermediate tensors are gone, one gradient is new.
  EXPECT_LE(in_use(), before - 8 * 4096 * 8);
}

TEST(Tape, DeepGraphsDoNotOverflowTheStack) {
  constexpr int kDepth = 100'000;
  const Tensor x = leaf({1}, {1}, DType::f32);
  const auto chain = [&] {
    Tensor h = x;
    for (int i = 0; i < kDepth; ++i) h = i % 2 == 0 ? scaled(h, 1) : plus(h, x);
    return h;
  };
  {
    const Tensor h = chain();
    EXPECT_EQ(live_nodes(), kDepth);
  }
  EXPECT_EQ(live_nodes(), 0);
  backward(chain());
  EXPECT_EQ(x.grad().item(), 1 + kDepth / 2);
  EXPECT_EQ(live_nodes(), 0);
}

TEST(Tape, CotangentMustFit) {
  const Tensor x = leaf({2, 3}, Values(6, 1.0));
  const Tensor y = scaled(x, 2);
  expect_error<ShapeError>([&] { backward(y); }, "needs a scalar");
  expect_error<ShapeError>([&] { backward(Tensor()); }, "needs a scalar");
  expect_error<ShapeError>([&] { backward(y, full({3, 2}, DType::f64, 1)); }, "(3, 2) for a result of shape (2, 3)");
  expect_error<DTypeError>([&] { backward(y, full({2, 3}, DType::f32, 1)); }, "f32 gradient for a f64 result");
  expect_error<GraphError>([&] { backward(y, Tensor()); }, "empty tensor");
  expect_error<GraphError>([&] { backward(Tensor(), full({1}, DType::f64, 1)); }, "requires a gradient");
  EXPECT_FALSE(x.grad());
  backward(y, full({2, 3}, DType::f64, 1));  // the refused calls left the graph whole
  EXPECT_EQ(x.grad().values(), Values(6, 2.0));
}

TEST(Tape, AnErrorInsideBackwardLeavesAUsableState) {
  const auto failing = [](const Tensor& t) {
    return record("failing", Output(t.shape(), t.dtype(), t.device()), {t},
                  [](const Tensor&, Gradients&) { throw ValueError("on purpose"); });
  };
  const Tensor x = leaf({2}, {1, 2}), y = leaf({2}, {1, 2});
  {
    const Tensor h = scaled(x, 2);
    const Tensor later = scaled(h, 10);  // not in the failing graph
    const Tensor result = plus(plus(failing(h), y), scaled(h, 3));
    const Tensor one = full({2}, DType::f64, 1);
    expect_error<ValueError>([&] { backward(result, one); }, "on purpose");
    EXPECT_TRUE(grad_enabled());
    expect_error<GraphError>([&] { backward(result, one); }, "freed");
    // h has met a part of its gradient; it must not come back to life through another result.
    expect_error<GraphError>([&] { backward(later, one); }, "freed");
  }
  EXPECT_EQ(live_nodes(), 0);
  EXPECT_FALSE(x.grad());
  backward(scaled(x, 4), full({2}, DType::f64, 1));
  EXPECT_EQ(x.grad().values(), (Values{4, 4}));
}

// Handles of the graph may outlive the error; what was on its way through it must not stay in memory with them.
TEST(Tape, AnErrorInsideBackwardFreesTheGradientsOnTheirWay) {
  const Tensor x = leaf({2}, {1, 2});
  const auto output = [&] { return Output(x.shape(), x.dtype(), x.device()); };
  const Tensor waiting = scaled(x, 2);  // recorded first, so its backward would run last
  const Tensor failing = record("failing", output(), {x}, [](const Tensor&, Gradients&) { throw ValueError("no"); });
  const Tensor both = record("both", output(), {waiting, failing}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    gradients.alias(1, dy);
  });
  const Tensor gradient = full({2}, DType::f64, 1);
  EXPECT_THROW(backward(both, gradient), ValueError);
  EXPECT_TRUE(gradient.unique());
}

// The gradient of a leaf is begun and the backward throws before it is written.
TEST(Tape, AnUnfinishedGradientIsNotLeftBehind) {
  const Tensor x = full({3}, DType::f32, 1.0).set_requires_grad(true);
  Output output({3}, DType::f32, Device::cpu);
  fill_zero(output.ref());
  const Tensor y = record("broken", std::move(output), {x}, [](const Tensor&, Gradients& gradients) {
    gradients.sink(0);
    throw ValueError("broken on purpose");
  });
  EXPECT_THROW(backward(y, full({3}, DType::f32, 1.0)), ValueError);
  EXPECT_FALSE(x.grad());
}

TEST(Tape, NorIsAGradientOfAnOperationThatFailsLater) {
  const Tensor x = leaf({2}, {1, 2});
  const Tensor y =
      record("broken", Output({2}, DType::f64, Device::cpu), {x}, [](const Tensor& dy, Gradients& gradients) {
        gradients.alias(0, dy);
        throw ValueError("broken on purpose");
      });
  EXPECT_THROW(backward(y, full({2}, DType::f64, 1.0)), ValueError);
  EXPECT_FALSE(x.grad());
}

TEST(Tape, ForwardAndBackwardInOneOperation) {
  const Tensor x = leaf({2}, {3, -1});
  const auto square_sum = [](const Tensor& input) {
    Output sum({}, DType::f64, Device::cpu);
    const Tensor result = sum.saved();
    return record_and_backward("square_sum", std::move(sum), {input},
                               [input, result](const Tensor& dresult, Gradients& gradients) {
                                 const double* v = input.data<double>();
                                 *result.data<double>() = v[0] * v[0] + v[1] * v[1];
                                 double* dx = gradients.fresh(0).as<double>();
                                 for (int i = 0; i < 2; ++i) dx[i] = 2 * v[i] * *dresult.data<double>();
                               });
  };
  const Tensor once = square_sum(x);
  EXPECT_EQ(once.item(), 10);
  EXPECT_FALSE(once.requires_grad());
  EXPECT_EQ(x.grad().values(), (Values{6, -2}));
  EXPECT_EQ(square_sum(scaled(x, 2)).item(), 40);
  EXPECT_EQ(x.grad().values(), (Values{6 + 24, -2 - 8}));
  EXPECT_EQ(live_nodes(), 0);
}

// Forward as it goes, backward in reverse, with the shapes; nothing once it is taken away.
TEST(Tape, AnObserverIsToldOfEachOperation) {
  struct : WorkObserver {
    std::vector<std::string> seen;
    void done(const Work& work) override {
      const char* kinds[] = {"forward", "backward", "both", "other"};
      seen.push_back(fmt::format("{} {}", kinds[static_cast<size_t>(work.kind)], work.name));
      if (work.result != nullptr) seen.back() += fmt::format(" {} of {}", work.result->shape(), work.inputs->size());
    }
  } observer;
  const Tensor x = leaf({2, 3}, Values(6, 1));
  set_work_observer(&observer);
  backward(plus(scaled(x, 2), x), full({2, 3}, DType::f64, 1));
  work_done("the rest");
  set_work_observer(nullptr);
  scaled(x, 2);
  work_done("unseen");
  EXPECT_EQ(observer.seen,
            (std::vector<std::string>{"forward scaled (2, 3) of 1", "forward plus (2, 3) of 2",
                                      "backward plus (2, 3) of 2", "backward scaled (2, 3) of 1", "other the rest"}));
}

}  // namespace
}  // namespace heed::test
