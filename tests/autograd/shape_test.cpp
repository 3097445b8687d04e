#include "autograd/core/shape.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/core/check.hpp"

namespace heed::test {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TEST(Shape, CountsElementsBeyond32Bits) {
  EXPECT_EQ((Shape{64, 16, 2048, 2048}.numel()), 4294967296);
  EXPECT_EQ((Shape{64, 16, 2048, 2048}.rows()), 2097152);
  EXPECT_EQ((Shape{1 << 20, 1 << 20, 1 << 20}.numel()), int64_t{1} << 60);
  EXPECT_EQ((Shape{kLargest}.numel()), kLargest);
}

TEST(Shape, RefusesSizesBeyond63Bits) {
  EXPECT_THROW((Shape{kLargest, 2}), ShapeError);
  EXPECT_THROW((Shape{int64_t{1} << 32, int64_t{1} << 31}), ShapeError);
  EXPECT_THROW((Shape{65536, 65536, 65536, 65536}), ShapeError) << "2^64 is 0 in 64 bits";
  EXPECT_THROW((Shape{2, 3}.with_last(kLargest)), ShapeError);
  EXPECT_THROW((Shape{2, 3}.with_appended(kLargest)), ShapeError);
  try {
    Shape{kLargest, 2};
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("9223372036854775807 * 2"), std::string::npos) << error.what();
  }
}

TEST(Shape, CheckedMultiply) {
  EXPECT_EQ(checked_multiply(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_EQ(checked_multiply(0, kLargest), 0);
  EXPECT_EQ(checked_multiply(kLargest, 1), kLargest);
  EXPECT_THROW(checked_multiply(int64_t{1} << 32, int64_t{1} << 31), ShapeError);
  EXPECT_THROW(checked_multiply(-1, 1), ShapeError);
  EXPECT_THROW(checked_multiply(1, -1), ShapeError);
  EXPECT_THROW(checked_multiply(-1, -1), ShapeError);
}

TEST(Shape, UpToFiveDimensions) {
  const Shape five{1, 2, 3, 4, 5};
  EXPECT_EQ(five.rank(), 5);
  EXPECT_EQ(five.numel(), 120);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(five.with_appended(1), ShapeError);
  EXPECT_THROW((Shape{2, -1}), ShapeError);
}

TEST(Shape, DimensionsFromBothEnds) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 4);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_THROW(shape[3], ShapeError);
  EXPECT_THROW(shape[-4], ShapeError);
  EXPECT_THROW(Shape{}[0], ShapeError);
  EXPECT_THROW(Shape{}[-1], ShapeError);
}

TEST(Shape, RowsAndColumns) {
  EXPECT_EQ((Shape{2, 3, 4}.rows()), 6);
  EXPECT_EQ((Shape{2, 3, 4}.columns()), 4);
  EXPECT_EQ(Shape{7}.rows(), 1);
  EXPECT_EQ(Shape{7}.columns(), 7);
  EXPECT_EQ(Shape{}.rows(), 1);
  EXPECT_EQ(Shape{}.columns(), 1);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{0, 4}.numel()), 0);
  EXPECT_EQ((Shape{0, 4}.rows()), 0);
  EXPECT_EQ((Shape{4, 0}.rows()), 4);
}

TEST(Shape, OtherLastDimension) {
  EXPECT_EQ((Shape{2, 3}.with_last(5)), (Shape{2, 5}));
  EXPECT_EQ((Shape{2, 3}.with_last(5).numel()), 10);
  EXPECT_EQ((Shape{2, 3}.with_appended(5)), (Shape{2, 3, 5}));
  EXPECT_EQ(Shape{}.with_appended(5), Shape{5});
  EXPECT_THROW(Shape{}.with_last(5), ShapeError);
}

TEST(Shape, EqualityAndText) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE(Shape{}, Shape{1});
  EXPECT_EQ((Shape{2, 3, 4}.text()), "(2, 3, 4)");
  EXPECT_EQ(Shape{7}.text(), "(7)");
  EXPECT_EQ(Shape{}.text(), "()");
  EXPECT_EQ(fmt::format("{}", Shape{2, 3}), "(2, 3)");
}

TEST(Shape, Rounding) {
  EXPECT_EQ(ceil_divide(0, 4), 0);
  EXPECT_EQ(ceil_divide(1, 4), 1);
  EXPECT_EQ(ceil_divide(4, 4), 1);
  EXPECT_EQ(ceil_divide(5, 4), 2);
  EXPECT_EQ(round_up(5, 4), 8);
  EXPECT_EQ(round_up(8, 4), 8);
}

}  // namespace
}  // namespace heed::test
