#include "launch/monitor_place.hpp"

#include "io/child_process.hpp"
#include "support/temporary_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>

namespace sluice {
namespace {

/// The file of a run's monitor, which another process holds whose launch has been silent for hours.
class MonitorPlaceTest : public testing::Test {
 protected:
  MonitorPlaceTest() { ::setenv("TMPDIR", directory_.path().c_str(), 1); }
  ~MonitorPlaceTest() override { ::unsetenv("TMPDIR"); }

  /// Opens and locks the file as another monitor does.
  FileDescriptor lock() const {
    FileDescriptor file(::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
    return file;
  }

  /// Writes the process into the file, which is old then.
  static void name(const FileDescriptor& file, pid_t process) {
    const std::string text = std::to_string(process);
    EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
    constexpr std::array<timespec, 2> kLongAgo{timespec{1000, 0}, timespec{1000, 0}};
    EXPECT_EQ(::futimens(file.get(), kLongAgo.data()), 0);
  }

  const test::TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_ / ("sluice-launch-" + std::to_string(::getuid()) + "-run");
};

/// A process that waits until it is ended.
pid_t start_waiting() {
  const pid_t process = ::fork();
  if (process == 0) {
    ::pause();
    ::_exit(0);
  }
  return process;
}

TEST_F(MonitorPlaceTest, is_taken_from_a_monitor_that_has_lost_its_launch) {
  FileDescriptor file = lock();
  const pid_t process = start_waiting();  // has the file and its lock too
  ChildProcess monitor(process);
  name(file, process);
  file = FileDescriptor(-1);
  MonitorPlace place;
  EXPECT_TRUE(place.take("run"));
  const auto status = monitor.wait_until(Deadline(20));
  EXPECT_TRUE(status && exit_status(*status) == 128 + SIGKILL);
}

TEST_F(MonitorPlaceTest, ends_no_process_that_has_got_the_number_of_a_former_monitor) {
  const pid_t process = start_waiting();
  ChildProcess other(process);
  FileDescriptor file = lock();
  name(file, process);
  MonitorPlace place;
  auto is_taken = std::async(std::launch::async, [&] { return place.take("run"); });
  EXPECT_EQ(is_taken.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
  file = FileDescriptor(-1);
  EXPECT_TRUE(is_taken.get());
  EXPECT_FALSE(other.wait_until(Deadline(0)));
}

}  // namespace
}  // namespace sluice
