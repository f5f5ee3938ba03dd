// The main of MPI tests: every rank runs every test; rank 0 reports, the others speak only when something
// fails.
#include "base/error.hpp"
#include "base/log.hpp"
#include "support/leak_check.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>

namespace sluice::test {
namespace {

constexpr double kStartSeconds = 60;
constexpr double kTestSeconds = 30;

MpiEnvironment* environment = nullptr;

/// Stands in for GoogleTest's printer on ranks other than 0.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override { test_ = &info; }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    // Asking GoogleTest for the current test would wait for a lock that it holds here.
    log::error("{}.{}: {}:{}: {}", test_ ? test_->test_suite_name() : "", test_ ? test_->name() : "set-up",
               result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
  }

 private:
  const testing::TestInfo* test_ = nullptr;
};

/// The ranks meet after each test and learn whether it failed anywhere. A rank that left a test in the middle
/// of a collective is found out here, too: the deadlines pass and the job ends.
class TestMeeting final : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    test_world().set_deadline(info.name(), kTestSeconds);
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    std::array<std::int64_t, 1> failed{info.result()->Failed() ? 1 : 0};
    try {
      test_world().set_deadline("the end of a test", kTestSeconds);
      test_world().all_reduce_max(failed);
    } catch (const std::exception& e) {
      log::error("{}.{}: {}", info.test_suite_name(), info.name(), e.what());
      MpiEnvironment::abort(ExitCode::kInternal);
    }
    failed_ = failed_ || failed[0] != 0;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::optional<MpiEnvironment> mpi;
  {
    const NoLeakCheck of_what_mpi_keeps;
    mpi.emplace(kStartSeconds);
  }
  environment = &*mpi;
  mpi->world().set_deadline("tests", kTestSeconds);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi->world().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  auto* meeting = new TestMeeting;
  listeners.Append(meeting);
  const int here = RUN_ALL_TESTS();
  const bool failed = meeting->failed() || here != 0;
  // While MPI's plugins are still loaded, so that what they take can be told from what we lose.
  check_for_leaks();
  mpi->finalize();
  return failed ? 1 : 0;
}

}  // namespace

MpiEnvironment& mpi_environment() { return *environment; }

}  // namespace sluice::test

int main(int argc, char** argv) {
  try {
    return sluice::test::run(argc, argv);
  } catch (const std::exception& e) {
    sluice::log::error("{}", e.what());
    sluice::MpiEnvironment::abort(sluice::ExitCode::kInternal);
  }
}
