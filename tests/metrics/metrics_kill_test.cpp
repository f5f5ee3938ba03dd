// metrics.h5 survives kill -9 at any moment: children write rows and are killed, the parent opens what they
// left.

#include "metrics/disk_calls.hpp"
#include "metrics/metrics_rows.hpp"
#include "metrics/metrics_writer.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <hdf5.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace {

/// While `counting`, the process kills itself at the change of a file after which `changes_left` is negative.
bool counting = false;
int changes_left = 0;
bool tear_last_change = false;  ///< writes half of it first

bool is_last_change() { return counting && changes_left-- == 0; }

}  // namespace

ssize_t sluice::test::write_to_disk(int file, const void* data, std::size_t bytes, off_t offset) {
  if (is_last_change()) {
    if (tear_last_change) ::syscall(SYS_pwrite64, file, data, bytes / 2, offset);
    ::raise(SIGKILL);
  }
  return ::syscall(SYS_pwrite64, file, data, bytes, offset);
}

int sluice::test::truncate_on_disk(int file, off_t bytes) {
  if (is_last_change()) ::raise(SIGKILL);
  return static_cast<int>(::syscall(SYS_ftruncate, file, bytes));
}

namespace sluice {
namespace {

using test::kManyRows;
using test::kRows;
using test::TemporaryDirectory;

/// Writes `rows` rows of `expected`, and sends a byte through `acknowledge` each time append() has returned.
void write_rows(const std::filesystem::path& path, std::int64_t expected, std::int64_t rows,
                int acknowledge) {
  MetricsWriter writer(path, test::header_for(expected));
  for (std::int64_t step = 1; step <= rows; ++step) {
    // Rows 1 and 17 enter new blocks; the ones between say nothing new about single changes.
    counting = counting || step == 17;
    writer.append(test::row_of(step));
    if (::write(acknowledge, "x", 1) != 1) std::_Exit(1);
    counting = counting && step != 2;
  }
}

struct Child {
  pid_t process;
  int acknowledgements;  ///< read end of its pipe
};

/// A child that runs `work` with the write end of its pipe.
Child start_child(const std::function<void(int)>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    work(ends[1]);
    std::_Exit(0);
  }
  ::close(ends[1]);
  return {process, ends[0]};
}

/// Takes up to `most` bytes out of a pipe, fewer only if its end was closed.
std::int64_t take_bytes(int descriptor, std::int64_t most) {
  std::vector<char> bytes(kRows);
  std::int64_t total = 0;
  while (total < most) {
    const ssize_t got =
        ::read(descriptor, bytes.data(), static_cast<std::size_t>(std::min(most - total, kRows)));
    if (got <= 0) break;
    total += got;
  }
  return total;
}

/// Waits for the end of a child; whether it was killed.
bool was_killed(const Child& child) {
  int status = 0;
  ::waitpid(child.process, &status, 0);
  ::close(child.acknowledgements);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/// Kills a writer `delay` after it has acknowledged `rows` rows, and returns how many it acknowledged in all.
std::int64_t run_and_kill(const std::filesystem::path& path, std::int64_t rows,
                          std::chrono::microseconds delay) {
  const Child child = start_child([&](int acknowledge) {
    write_rows(path, kRows, kRows, acknowledge);
    ::pause();
  });
  std::int64_t acknowledged = take_bytes(child.acknowledgements, rows);
  std::this_thread::sleep_for(delay);
  ::kill(child.process, SIGKILL);
  acknowledged += take_bytes(child.acknowledgements, kRows);
  EXPECT_TRUE(was_killed(child));
  return acknowledged;
}

/// All values of a dataset, through the plain library as any user has it.
template <class T>
std::vector<T> plain_read(hid_t file, const char* name, hid_t type) {
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  EXPECT_GE(dataset, 0) << name;
  const hid_t space = H5Dget_space(dataset);
  std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
  H5Sclose(space);
  H5Dclose(dataset);
  return values;
}

/// The file opens with all defaults and has the right values in at least `acknowledged` rows.
void expect_rows(const std::filesystem::path& path, std::int64_t acknowledged) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0) << "the file does not open";
  const auto steps = plain_read<std::int64_t>(file, "/train/step", H5T_NATIVE_INT64);
  const auto loss = plain_read<double>(file, "/train/loss", H5T_NATIVE_DOUBLE);
  const auto phase = plain_read<double>(file, "/train/phase_seconds/backward", H5T_NATIVE_DOUBLE);
  const auto experts = plain_read<std::int64_t>(file, "/moe/expert_tokens", H5T_NATIVE_INT64);
  const auto peaks = plain_read<std::int64_t>(file, "/memory/peak_bytes", H5T_NATIVE_INT64);
  EXPECT_GE(H5Fclose(file), 0);
  const std::int64_t rows = std::ssize(steps);
  ASSERT_GE(rows, acknowledged);
  ASSERT_GE(std::ssize(loss), rows) << "the step column is the last to grow";
  ASSERT_LE(rows, acknowledged + 1);
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i == acknowledged && steps.back() == 0) return;  // its block was still to be entered in the index
    const TrainRow row = test::row_of(i + 1);
    const auto at = static_cast<std::size_t>(i);
    ASSERT_EQ(steps[at], row.step);
    ASSERT_EQ(loss[at], row.loss);
    ASSERT_EQ(phase[at], row.phase_seconds[1]);
    ASSERT_TRUE(std::equal(row.expert_tokens.begin(), row.expert_tokens.end(),
                           experts.begin() + i * std::ssize(row.expert_tokens)));
    ASSERT_TRUE(std::equal(row.peak_bytes.begin(), row.peak_bytes.end(), peaks.begin() + i * 2));
  }
}

TEST(MetricsKill, keeps_every_acknowledged_row_at_random_moments) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const TemporaryDirectory directory;
    const auto rows = static_cast<std::int64_t>(random() % 40);
    const std::chrono::microseconds delay(random() % 400);
    SCOPED_TRACE(testing::Message() << "round " << round << ", after " << rows << " rows and "
                                    << delay.count() << " us");
    const std::int64_t acknowledged =
        run_and_kill(directory / "metrics.h5", std::max<std::int64_t>(rows, 1), delay);
    expect_rows(directory / "metrics.h5", acknowledged);
    if (HasFatalFailure()) return;
  }
}

/// Runs a writer that dies at its change number `change`. Whether there was such a change.
bool die_at_change(const std::filesystem::path& path, std::int64_t expected, int change, bool tear) {
  const Child child = start_child([&](int acknowledge) {
    counting = true;
    changes_left = change;
    tear_last_change = tear;
    write_rows(path, expected, 18, acknowledge);
  });
  const std::int64_t acknowledged = take_bytes(child.acknowledgements, kRows);
  const bool killed = was_killed(child);
  if (std::filesystem::exists(path))
    expect_rows(path, acknowledged);
  else
    EXPECT_EQ(acknowledged, 0);
  return killed;
}

void die_at_every_change(std::int64_t expected, bool tear) {
  int change = 0;
  for (bool killed = true; killed; change += test::kStride) {
    const TemporaryDirectory directory;
    SCOPED_TRACE(testing::Message() << "change " << change);
    killed = die_at_change(directory / "metrics.h5", expected, change, tear);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(change, 100) << "the calls were not intercepted";
}

TEST(MetricsKill, keeps_every_acknowledged_row_between_any_two_changes) { die_at_every_change(kRows, false); }

TEST(MetricsKill, keeps_every_acknowledged_row_within_any_change) { die_at_every_change(kRows, true); }

TEST(MetricsKill, keeps_every_acknowledged_row_of_blocks_with_holes) {
  die_at_every_change(kManyRows, false);
}

TEST(MetricsKill, leaves_no_half_made_file_under_the_name) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const TemporaryDirectory directory;
    const std::chrono::microseconds delay(random() % 3000);
    const std::int64_t acknowledged = run_and_kill(directory / "metrics.h5", 0, delay);
    if (std::filesystem::exists(directory / "metrics.h5"))
      expect_rows(directory / "metrics.h5", acknowledged);
    if (HasFatalFailure()) return;
  }
}

TEST(MetricsKill, leaves_a_file_that_h5py_and_h5dump_open) {
  const TemporaryDirectory directory;
  const std::int64_t acknowledged =
      run_and_kill(directory / "metrics.h5", 33, std::chrono::microseconds(200));
  const std::string path = (directory / "metrics.h5").string();
  EXPECT_EQ(std::system(("env -i " + (source_folder() / "tests/metrics/read_metrics.py").string() + " " +
                         path + " > /dev/null")
                            .c_str()),
            0)
      << acknowledged;
  EXPECT_EQ(std::system(("env -i " SLUICE_H5DUMP " " + path + " > /dev/null").c_str()), 0);
}

}  // namespace
}  // namespace sluice
