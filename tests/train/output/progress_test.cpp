// Lines that fit into a terminal of any width.
#include "train/output/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace heed::train {
namespace {

const ProgressFields kTraining{.fraction = 0.5,
                               .counter = "1200/2000",
                               .details = {"loss 1.2345", "val 1.3000", "excess 0.0500", "58.4k tokens/s"},
                               .eta = "ETA 0:42"};

TEST(WrapWords, KeepsLinesShortAndWordsWhole) {
  EXPECT_EQ(wrap_words("one two three", 7), "one two\nthree\n");
  EXPECT_EQ(wrap_words("one two three", 7, 2), "one two\n  three\n");
  EXPECT_EQ(wrap_words("± ± ±", 3), "± ±\n±\n");
  EXPECT_EQ(wrap_words("unbreakable", 4), "unbreakable\n");
  EXPECT_EQ(wrap_words("", 4), "\n");
}

TEST(Terminal, CountsColumnsNotBytes) {
  EXPECT_EQ(display_columns(""), 0);
  EXPECT_EQ(display_columns("abc"), 3);
  EXPECT_EQ(display_columns("é…"), 2);
  EXPECT_EQ(display_columns("e\xCC\x81"), 1) << "a combining accent";
  EXPECT_EQ(display_columns("日本"), 4);
  EXPECT_EQ(display_columns("😀"), 2);
  EXPECT_EQ(display_columns("a\xFF"
                            "b\xE6"),
            4)
      << "bytes that are not UTF-8";
  EXPECT_EQ(display_columns("\r\n\t"), 0);
}

TEST(Terminal, CutsBetweenCharacters) {
  EXPECT_EQ(cut_to_columns("abc", 5), "abc");
  EXPECT_EQ(cut_to_columns("abc", 2), "ab");
  EXPECT_EQ(cut_to_columns("日本", 3), "日");
  EXPECT_EQ(cut_to_columns("e\xCC\x81x", 1), "e\xCC\x81");
  EXPECT_EQ(cut_to_columns("abc", 0), "");
  EXPECT_EQ(cut_to_columns("abc", -3), "");
}

TEST(Terminal, TheBarShrinksFirstThenDetailsAreLeftOut) {
  EXPECT_EQ(progress_text(kTraining, 200),
            "[############............] 1200/2000  loss 1.2345  val 1.3000  excess 0.0500  58.4k tokens/s  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 90),
            "[######......] 1200/2000  loss 1.2345  val 1.3000  excess 0.0500  58.4k tokens/s  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 80),
            "[#########.........] 1200/2000  loss 1.2345  val 1.3000  excess 0.0500  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 40), "[##...] 1200/2000  loss 1.2345  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 39), "[########.........] 1200/2000  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 20), "1200/2000  ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 10), "ETA 0:42");
  EXPECT_EQ(progress_text(kTraining, 4), "ETA ");
}

TEST(Terminal, NoWidthIsExceeded) {
  ProgressFields wide = kTraining;
  wide.details.insert(wide.details.begin(), "日本語のファイル");
  for (const ProgressFields& fields : {kTraining, wide}) {
    for (int64_t columns = 0; columns < 150; ++columns) {
      const std::string text = progress_text(fields, columns);
      EXPECT_LE(display_columns(text), columns) << text;
      if (columns >= 8) {
        EXPECT_TRUE(text.ends_with("ETA 0:42")) << text;
      }
      // What is there for it is used: a longer text would have been chosen before.
      if (columns >= 36) {
        EXPECT_TRUE(text.starts_with("[")) << text;
      }
    }
  }
}

TEST(Terminal, FieldsThatAreEmptyTakeNoPlace) {
  EXPECT_EQ(progress_text({.fraction = -1, .counter = "learning", .details = {"", "x", ""}, .eta = ""}, 80),
            "learning  x");
  EXPECT_EQ(progress_text({.fraction = 2, .counter = "a", .details = {}, .eta = ""}, 10), "[######] a");
}

TEST(Terminal, FieldsOfALogLineAreLeftOutFromTheRight) {
  EXPECT_EQ(join_fields({"step 1", "loss 2", "lr 3"}), "step 1  loss 2  lr 3");
  EXPECT_EQ(join_fields({"step 1", "loss 2", "lr 3"}, 20), "step 1  loss 2  lr 3");
  EXPECT_EQ(join_fields({"step 1", "loss 2", "lr 3"}, 19), "step 1  loss 2");
  EXPECT_EQ(join_fields({"step 1", "loss 2", "lr 3"}, 3), "step 1") << "the first one stays whole";
}

// A pseudo-terminal and TERM, as they were afterwards.
class PseudoTerminal : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* term = std::getenv("TERM")) term_ = term;
    primary_ = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(primary_, 0);
    ASSERT_EQ(grantpt(primary_), 0);
    ASSERT_EQ(unlockpt(primary_), 0);
    secondary_ = ::open(ptsname(primary_), O_RDWR | O_NOCTTY);
    ASSERT_GE(secondary_, 0);
    setenv("TERM", "xterm", 1);
  }
  void TearDown() override {
    ::close(secondary_);
    ::close(primary_);
    term_.empty() ? unsetenv("TERM") : setenv("TERM", term_.c_str(), 1);
  }
  void resize(unsigned short columns) const {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(ioctl(primary_, TIOCSWINSZ, &size), 0);
  }

  std::string term_;
  int primary_ = -1, secondary_ = -1;
};

TEST_F(PseudoTerminal, IsDrawnOnOnlyWhereItUnderstands) {
  EXPECT_TRUE(can_redraw(secondary_));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(can_redraw(secondary_));
  setenv("TERM", "", 1);
  EXPECT_FALSE(can_redraw(secondary_));
  unsetenv("TERM");
  EXPECT_FALSE(can_redraw(secondary_));
  setenv("TERM", "xterm", 1);
  const int file = ::open("/dev/null", O_RDWR);
  EXPECT_FALSE(can_redraw(file));
  ::close(file);
}

TEST_F(PseudoTerminal, TheWidthIsAskedForAtEachRedraw) {
  std::string written;
  ProgressLine line(secondary_, [&](const std::string& text) { written += text; });
  EXPECT_TRUE(line.is_due());
  EXPECT_EQ(line.columns(), 80) << "a width of 0 is unknown";
  setenv("COLUMNS", "33", 1);  // the shell's at its start, not that of the window now
  EXPECT_EQ(line.columns(), 80);
  unsetenv("COLUMNS");
  for (const unsigned short columns : {uint16_t{40}, uint16_t{120}, uint16_t{21}}) {
    resize(columns);
    written.clear();
    line.draw(kTraining);
    EXPECT_EQ(written, "\r" + progress_text(kTraining, columns - 1) + "\033[K");
    EXPECT_FALSE(line.is_due());
  }
  written.clear();
  line.erase();
  EXPECT_EQ(written, "\r\033[K");
  line.erase();
  EXPECT_EQ(written, "\r\033[K") << "there was nothing to erase";
}

TEST_F(PseudoTerminal, ALineThatIsNotShownWritesNothing) {
  std::string written;
  const auto write = [&](const std::string& text) { written += text; };
  setenv("TERM", "dumb", 1);
  {
    ProgressLine line(secondary_, write);
    EXPECT_FALSE(line.is_due());
    line.draw(kTraining);
  }
  setenv("TERM", "xterm", 1);
  {
    ProgressLine line(secondary_, write, false);
    line.draw(kTraining);
  }
  EXPECT_EQ(written, "");
  { ProgressLine(secondary_, write).draw(kTraining); }
  EXPECT_TRUE(written.ends_with("\r\033[K")) << "its end erases it";
}

}  // namespace
}  // namespace heed::train
