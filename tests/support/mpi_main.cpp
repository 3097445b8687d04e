// The main of tests that run in several processes by mpirun, all of them the same tests. Rank 0 prints as GoogleTest
// does, the others only what fails; if a test fails on any rank, every rank exits with 1.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string>

namespace {

class FailuresOfRank : public ::testing::EmptyTestEventListener {
 public:
  explicit FailuresOfRank(int rank) : rank_(rank) {}

 private:
  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  // Called under GoogleTest's lock, which its question for the current test would take again.
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() == nullptr ? "unknown file" : result.file_name();
    std::fprintf(stderr, "rank %d: %s:%d: %s\n%s\n", rank_, file, result.line_number(), test_.c_str(),
                 result.message());
  }

  int rank_;
  std::string test_ = "outside of a test";
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOfRank(rank));  // GoogleTest owns it
  }
  const int failed = RUN_ALL_TESTS();
  int failed_anywhere = 0;
  MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed_anywhere;
}
