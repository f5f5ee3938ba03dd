#include "process/run_lock.hpp"

#include "base/clock.hpp"
#include "process/host_name.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>

namespace {
int refused_with = 0;  ///< what flock() fails with, or 0: the system's own
int interrupted = 0;   ///< how often flock() is to be interrupted first
}  // namespace

/// In place of the C library's.
extern "C" int flock(int file, int operation) noexcept {
  if (interrupted > 0) {
    --interrupted;
    errno = EINTR;
    return -1;
  }
  if (refused_with == 0) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = refused_with;
  return -1;
}

namespace sluice {
namespace {

using nlohmann::json;

constexpr const char* kLongAgo = "2026-01-01T00:00:00Z";

class RunLockTest : public testing::Test {
 protected:
  ~RunLockTest() override { refused_with = interrupted = 0; }
  void write_status(const json& status) const { std::ofstream(directory_ / "status.json") << status.dump(); }
  [[nodiscard]] bool runs(const json& status) const { return is_running(directory_ / "", status); }

  test::TemporaryDirectory directory_;
  const json here_{{"state", "training"}, {"host", host_name()}, {"pid", ::getpid()}, {"updated", kLongAgo}};
  const json gone_{{"state", "training"}, {"host", host_name()}, {"pid", 1 << 30}, {"updated", utc_now()}};
};

TEST_F(RunLockTest, only_a_lock_that_is_held_is_another_job) {
  std::optional<RunLock> first(directory_ / "");
  EXPECT_EQ(first->refusal(), "");
  test::expect_error(ExitCode::kBadConfig, {"another job is running", "lock"},
                     [&] { const RunLock second(directory_ / ""); });
  first.reset();
  for (const int number : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL, EIO}) {
    refused_with = number;
    const RunLock without(directory_ / "");
    EXPECT_NE(without.refusal().find(std::to_string(number)), std::string::npos) << without.refusal();
  }
}

TEST_F(RunLockTest, an_interrupted_call_is_made_again) {
  interrupted = 2;
  EXPECT_EQ(RunLock(directory_ / "").refusal(), "");
}

TEST_F(RunLockTest, without_locks_a_process_that_is_there_keeps_its_directory) {
  refused_with = ENOLCK;
  write_status(here_);
  test::expect_error(ExitCode::kBadConfig, {"another job is running", std::to_string(::getpid())},
                     [&] { const RunLock second(directory_ / ""); });
  json ended = here_;
  ended["exit_code"] = 0;
  for (const json& status : {ended, gone_, json{{"state", 3}}}) {
    write_status(status);
    EXPECT_NE(RunLock(directory_ / "").refusal(), "") << status;
  }
}

TEST_F(RunLockTest, a_run_is_there_as_long_as_its_lock_is_held) {
  EXPECT_FALSE(runs(here_)) << "there is no lock at all";
  std::optional<RunLock> lock(directory_ / "");
  EXPECT_TRUE(runs(gone_));
  lock.reset();
  EXPECT_FALSE(runs(here_));
}

TEST_F(RunLockTest, of_one_without_a_lock_process_or_age_tell) {
  refused_with = ENOLCK;
  const RunLock lock(directory_ / "");
  for (const bool has_locks_now : {false, true}) {
    if (has_locks_now) refused_with = 0;
    json here = here_, gone = gone_;
    here["locked"] = gone["locked"] = false;
    EXPECT_TRUE(runs(here));
    EXPECT_FALSE(runs(gone));
    json elsewhere = gone;
    elsewhere["host"] = "another";
    EXPECT_TRUE(runs(elsewhere));
    elsewhere["updated"] = kLongAgo;
    EXPECT_FALSE(runs(elsewhere));
  }
}

TEST_F(RunLockTest, what_nothing_tells_of_is_taken_to_run) {
  const RunLock lock(directory_ / "");
  refused_with = ENOLCK;
  EXPECT_TRUE(runs(here_));
  EXPECT_FALSE(runs(gone_));
  json elsewhere = gone_;
  elsewhere["host"] = "another";
  EXPECT_TRUE(runs(elsewhere));
}

}  // namespace
}  // namespace sluice
