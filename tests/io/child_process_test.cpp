#include "io/child_process.hpp"

#include "base/clock.hpp"
#include "io/file.hpp"
#include "support/expect_error.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>

namespace sluice {
namespace {

std::string read_line(const FileDescriptor& from) {
  std::array<char, 100> room{};
  const ssize_t count = ::read(from.get(), room.data(), room.size());
  return {room.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST(ChildProcess, tells_its_exit_status) {
  ChildProcess child({"sh", "-c", "exit 3"}, {});
  const std::optional<int> status = child.wait_until(Deadline(20));
  ASSERT_TRUE(status);
  ASSERT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 3);
}

TEST(ChildProcess, is_sent_a_signal_until_it_has_ended_and_nobody_after_that) {
  ChildProcess child({"sleep", "1000"}, {});
  child.signal(SIGTERM);
  const std::optional<int> status = child.wait_until(Deadline(20));
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
  EXPECT_EQ(exit_status(*status), 128 + SIGTERM);
  child.signal(SIGCONT);
}

TEST(ChildProcess, has_the_streams_it_is_given_and_reads_nothing_from_others) {
  auto [reading, writing] = make_pipe();
  ChildProcess child({"sh", "-c", "cat; echo heard >&2; echo lost"}, {.error = writing.get()});
  ASSERT_TRUE(child.wait_until(Deadline(20)));
  EXPECT_EQ(read_line(reading), "heard\n");
}

TEST(ChildProcess, hears_signals_that_its_parent_blocks) {
  sigset_t terminate;
  sigset_t before;
  ::sigemptyset(&terminate);
  ::sigaddset(&terminate, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminate, &before);
  ChildProcess child({"sh", "-c", "kill -TERM $$; exit 0"}, {});
  const std::optional<int> status = child.wait_until(Deadline(20));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status));
}

TEST(ChildProcess, that_runs_on_is_still_there_at_the_deadline) {
  ChildProcess child({"sleep", "100"}, {});
  EXPECT_EQ(child.wait_until(Deadline(0.05)), std::nullopt);
  EXPECT_EQ(child.wait_until(Deadline(0.05)), std::nullopt);
}

TEST(ChildProcess, is_killed_and_reaped_with_its_owner) {
  const pid_t forked = ::fork();
  if (forked == 0) {
    ::pause();
    ::_exit(0);
  }
  { const ChildProcess child(forked); }
  EXPECT_EQ(::waitpid(forked, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildProcess, that_cannot_be_started_is_the_machines_lack) {
  test::expect_error(ExitCode::kTooLittle, {"no-such-program", "cannot be started"},
                     [] { ChildProcess({"no-such-program"}, {}); });
}

}  // namespace
}  // namespace sluice
