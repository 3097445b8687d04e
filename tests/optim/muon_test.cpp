#include "optim/muon.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optim/newton_schulz.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF64;
using Scale = MuonOptions::Scale;

Tensor matrix_of(const ParameterSpan& span, int64_t first, int64_t rows, int64_t columns) {
  return span.gradients.slice(first, {rows, columns});
}

// Two matrices in one span, of which the second is tall.
struct TwoMatrices {
  ParameterSpan span = make_span(DType::f64, random_values(15 + 28, 0), random_values(15 + 28, 0), true);
  std::vector<Tensor> matrices{matrix_of(span, 0, 3, 5), matrix_of(span, 15, 7, 4)};
};

std::vector<double> part(const std::vector<double>& values, int64_t first, int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

TEST(Muon, FollowsThePlainFormula) {
  for (const Scale scale : {Scale::original, Scale::match_rms_adamw}) {
    const TwoMatrices two;
    Muon optimizer({two.span}, two.matrices, {.momentum = 0.8, .weight_decay = 0.2, .scale = scale});
    std::vector<double> w = two.span.weights.values(), m(w.size(), 0.0), u(w.size());
    for (uint32_t step = 1; step <= 10; ++step) {
      const double lr = 0.1 / step, gradient_scale = step % 2 == 0 ? 1.0 : 0.37;
      const std::vector<double> gradients = random_values(15 + 28, step);
      set_gradients(two.span, gradients);
      optimizer.step(lr, gradient_scale);
      for (size_t i = 0; i < w.size(); ++i) {
        const double g = gradient_scale * gradients[i];
        m[i] = 0.8 * m[i] + 0.2 * g;
        u[i] = 0.8 * m[i] + 0.2 * g;
      }
      for (const auto& [first, rows, columns] : {std::tuple(0, 3, 5), {15, 7, 4}}) {
        const int64_t size = rows * columns;
        const std::vector<double> direction =
            newton_schulz(from_values({1, rows, columns}, DType::f64, part(u, first, size))).values();
        const double factor = scale == Scale::original ? std::sqrt(std::max(1.0, rows / double(columns)))
                                                       : 0.2 * std::sqrt(std::max(rows, columns));
        for (int64_t i = 0; i < size; ++i) {
          double& weight = w[static_cast<size_t>(first + i)];
          weight -= lr * 0.2 * weight;
          weight -= lr * factor * direction[static_cast<size_t>(i)];
        }
      }
      EXPECT_EQ(two.span.gradients.values(), gradients) << "only zero_grad() changes them";
    }
    for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(two.span.weights.values()[i], w[i], kF64) << i;
    for (size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(optimizer.state()[0].second.values()[i], m[i], kF64) << i;
  }
}

TEST(Muon, UpdatesTheOtherSpansByAdamW) {
  const AdamWOptions others{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.3};
  const TwoMatrices two;
  const auto other = [] { return make_span(DType::f64, random_values(9, 7), random_values(9, 8), true); };
  ParameterSpan by_muon = other(), by_adamw = other();
  by_muon.learning_rate_scale = by_adamw.learning_rate_scale = 0.25;
  Muon muon({by_muon, two.span}, two.matrices, {.others = others});
  AdamW adamw({by_adamw}, others);
  for (int step = 0; step < 3; ++step) {
    muon.step(0.01);
    adamw.step(0.01);
  }
  EXPECT_EQ(by_muon.weights.values(), by_adamw.weights.values());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : muon.state()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"m.0", "v.0", "m.1"}));
  EXPECT_EQ(muon.state_names(two.matrices[1]), (std::vector<std::string>{"m"}));
  EXPECT_EQ(muon.state_names(by_muon.gradients), (std::vector<std::string>{"m", "v"}));
}

// As the shards of several ranks: the matrices are cut anywhere, and `gather` makes their gradients whole.
TEST(Muon, OfPiecesIsMuonOfWholeMatrices) {
  const TwoMatrices whole, cut;
  std::vector<ParameterSpan> pieces;
  for (const auto& [first, count] : {std::pair(0, 11), {11, 12}, {23, 20}}) {
    pieces.push_back({cut.span.weights.slice(first, {count}), cut.span.gradients.slice(first, {count}), true});
  }
  int gathered = 0;
  Muon by_whole({whole.span}, whole.matrices, {}), by_pieces(pieces, cut.matrices, {}, [&] { ++gathered; });
  for (uint32_t step = 1; step <= 3; ++step) {
    for (const TwoMatrices* one : {&whole, &cut}) set_gradients(one->span, random_values(15 + 28, step));
    by_whole.step(0.01, 0.7);
    by_pieces.step(0.01, 0.7);
  }
  EXPECT_EQ(gathered, 3);
  EXPECT_EQ(cut.span.weights.values(), whole.span.weights.values());
}

// Q, K and V are matrices of their own in one parameter; newton_schulz() of all rows together would be another update.
TEST(Muon, TreatsEachMatrixByItself) {
  const TwoMatrices two;
  const auto update_of = [](const std::vector<std::pair<int64_t, int64_t>>& parts) {
    const ParameterSpan span = make_span(DType::f64, std::vector<double>(32, 0.0), random_values(32, 4), false);
    std::vector<Tensor> matrices;
    for (const auto& [first, rows] : parts) matrices.push_back(matrix_of(span, first, rows, 4));
    Muon({span}, matrices, {}).step(0.1);
    return span.weights.values();
  };
  const std::vector<double> apart = update_of({{0, 4}, {16, 4}}), together = update_of({{0, 8}});
  EXPECT_GT(std::abs(apart[0] - together[0]), test::kSixDigits);
}

TEST(Muon, RefusesASpanWithOtherParameters) {
  for (const auto& [first, second] : {std::pair(9, 24), {0, 24}, {0, 15}}) {  // before, between and after the matrices
    const ParameterSpan span =
        make_span(DType::f64, random_values(15 + 28 + 9, 0), random_values(15 + 28 + 9, 1), true);
    const std::vector<Tensor> matrices{matrix_of(span, second, 7, 4), matrix_of(span, first, 3, 5)};
    try {
      Muon({span}, matrices, {.padding = 8});
      ADD_FAILURE() << "accepted " << first << ", " << second;
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find("span 0 has 9 elements"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(Muon({span}, matrices, {.padding = 9}));
  }
}

TEST(Muon, ChangesNothingInAStepThatIsNotValid) {
  const TwoMatrices two;
  Muon optimizer({two.span}, two.matrices, {});
  optimizer.step(0.1);
  const std::vector<double> weights = two.span.weights.values(), m = optimizer.state()[0].second.values();
  const StepState state{.learning_rate = 0.1, .optimizer_step = 2, .is_valid = 0};
  optimizer.step(&state);
  EXPECT_EQ(two.span.weights.values(), weights);
  EXPECT_EQ(optimizer.state()[0].second.values(), m);
}

TEST(Muon, RefusesWhatItCannotUpdate) {
  const TwoMatrices two;
  const ParameterSpan other = make_span(DType::f64, {1, 2}, {1, 2}, true);
  EXPECT_THROW(Muon({other}, two.matrices, {}), ValueError) << "matrices of no span";
  EXPECT_THROW(Muon({two.span}, {two.span.gradients}, {}), ShapeError) << "no matrix";
  EXPECT_THROW(Muon({two.span}, two.matrices, {.momentum = 1}), ValueError);
  EXPECT_THROW(Muon({two.span}, two.matrices, {.weight_decay = -1}), ValueError);
  EXPECT_THROW(Muon({two.span}, two.matrices, {.others = {.beta1 = 1}}), ValueError);
}

}  // namespace
}  // namespace heed::optim
