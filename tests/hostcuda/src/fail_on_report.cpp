// Linked into a GoogleTest program: what the emulator reports during a test is a failure of that test.
#include <gtest/gtest.h>
#include <hostcuda.h>

namespace {

class FailOnReport : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const hostcuda::Report& report : hostcuda::take_reports()) {
      ADD_FAILURE() << "hostcuda: " << report.kind << ": " << report.text;
    }
  }
};

const bool kIsRegistered = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FailOnReport);  // GoogleTest owns it
  return true;
}();

}  // namespace
