// metrics.h5 survives a disk that is full, for a while or for good, from any moment on: the process goes on,
// and what it writes later is in the file, too. It survives one that fails, though HDF5 may take no more
// then.

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "metrics/disk_calls.hpp"
#include "metrics/metrics_rows.hpp"
#include "metrics/metrics_writer.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace {

constexpr int kNever = std::numeric_limits<int>::max();
constexpr off_t kPageBytes = 4096;

/// What the disk does from some change of a file on.
enum class Disk {
  kFull,    ///< refuses new pages, and takes changes of those that it has
  kFailing  ///< refuses every change
};

Disk disk = Disk::kFull;
int changes_left = kNever;  ///< changes until the disk is full
bool counting = true;       ///< changes, which otherwise are taken as long as the disk is well
std::set<off_t> pages;      ///< pages of the file that the disk has

bool has_pages(off_t begin, off_t end) {
  for (off_t page = begin / kPageBytes; page <= (end - 1) / kPageBytes; ++page)
    if (!pages.contains(page)) return false;
  return true;
}

bool is_still_well() {
  if (changes_left == kNever) return true;
  if (changes_left == 0) return false;
  if (counting) --changes_left;
  return true;
}

}  // namespace

ssize_t sluice::test::write_to_disk(int file, const void* data, std::size_t bytes, off_t offset) {
  const off_t end = offset + static_cast<off_t>(bytes);
  if (!is_still_well() && (disk == Disk::kFailing || !has_pages(offset, end))) {
    errno = disk == Disk::kFull ? ENOSPC : EIO;
    return -1;
  }
  for (off_t page = offset / kPageBytes; page <= (end - 1) / kPageBytes; ++page) pages.insert(page);
  return ::syscall(SYS_pwrite64, file, data, bytes, offset);
}

/// Takes no room: what is not written yet are holes.
int sluice::test::truncate_on_disk(int file, off_t bytes) {
  if (!is_still_well() && disk == Disk::kFailing) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_ftruncate, file, bytes));
}

namespace sluice {
namespace {

using test::kManyRows;
using test::kRows;
using test::TemporaryDirectory;

/// Whether it was not refused, which is the only error there may be.
template <class Write>
bool is_taken(const Write& write) {
  try {
    write();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo) << error.what();
    return false;
  }
  return true;
}

/// Row of a step, made once.
const TrainRow& row_of(std::int64_t step) {
  static std::map<std::int64_t, TrainRow> rows;
  const auto known = rows.find(step);
  return known != rows.end() ? known->second : rows.emplace(step, test::row_of(step)).first->second;
}

bool append(MetricsWriter& writer, std::int64_t step) {
  return is_taken([&] { writer.append(row_of(step)); });
}

/// What the last column, which readers go by, says of the rows that are complete.
std::vector<std::int64_t> steps_in(const hdf5::File& file) {
  return file.dataset("/train/step").read<std::int64_t>();
}

void expect_equal_columns(const hdf5::File& file) {
  for (const StepColumn& column : step_columns(test::header_for(kRows)))
    EXPECT_EQ(file.dataset(column.column.path).shape()[0], std::ssize(steps_in(file))) << column.column.path;
}

/// Every column has the values of these steps in its first rows.
void expect_values(const hdf5::File& file, const std::vector<std::int64_t>& steps) {
  for (const StepColumn& column : step_columns(test::header_for(kRows))) {
    MetricValues expected = column.values(row_of(1)), found;
    const auto read = [&](auto& values) {
      values.clear();
      for (const std::int64_t step : steps) {
        const auto row = std::get<std::remove_cvref_t<decltype(values)>>(column.values(row_of(step)));
        values.insert(values.end(), row.begin(), row.end());
      }
      const hdf5::Dataset dataset = file.dataset(column.column.path);
      hdf5::Hyperslab rows{std::vector<std::int64_t>(dataset.shape().size(), 0), dataset.shape()};
      ASSERT_GE(rows.count[0], std::ssize(steps)) << column.column.path;
      rows.count[0] = std::ssize(steps);
      auto there = values;
      dataset.read(rows, std::span(there));
      found = std::move(there);
    };
    std::visit(read, expected);
    ASSERT_EQ(found, expected) << column.column.path;
  }
}

/// Appends steps [first, last] and notes those that were taken.
void append(MetricsWriter& writer, std::int64_t first, std::int64_t last, std::vector<std::int64_t>& taken) {
  for (std::int64_t step = first; step <= last; ++step)
    if (append(writer, step)) taken.push_back(step);
}

struct Outcome {
  std::vector<std::int64_t> taken;  ///< steps whose append() returned
  bool was_closed;
};

/// Steps 1 to 18 go to a disk that has room for `changes`, and 19 and 20 to one that has room again, if it
/// `heals`.
Outcome write_steps(const std::filesystem::path& path, std::int64_t expected, int changes, bool heals) {
  pages.clear();
  Outcome outcome;
  MetricsWriter writer(path, test::header_for(expected));
  changes_left = changes;
  append(writer, 1, 2, outcome.taken);
  counting = false;  // rows 1 and 17 enter new blocks; those between say nothing new about single changes
  append(writer, 3, 16, outcome.taken);
  counting = true;
  append(writer, 17, 18, outcome.taken);
  if (heals) changes_left = kNever;
  append(writer, 19, 20, outcome.taken);
  EXPECT_EQ(writer.rows(), std::ssize(outcome.taken));
  outcome.was_closed = is_taken([&] { writer.close(); });
  changes_left = kNever;
  return outcome;
}

/// Calls `check` with what became of a disk that is so from each change on.
template <class Check>
void at_every_change(Disk how, std::int64_t expected, bool heals, const Check& check) {
  const test::NoLeakCheck hdf5_forgets_what_it_could_not_write;
  disk = how;
  int change = 0;
  for (bool refused = true; refused; change += test::kStride) {
    const TemporaryDirectory directory;
    SCOPED_TRACE(testing::Message() << "change " << change);
    const Outcome outcome = write_steps(directory / "metrics.h5", expected, change, heals);
    refused = outcome.taken.size() < 20;
    check(hdf5::File::open(directory / "metrics.h5"), outcome);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(change, 50) << "the calls were not intercepted";
}

TEST(MetricsFullDisk, takes_every_row_once_there_is_room_again) {
  at_every_change(Disk::kFull, kRows, /*heals=*/true, [](const hdf5::File& file, const Outcome& outcome) {
    EXPECT_TRUE(outcome.was_closed);
    EXPECT_EQ(std::ranges::count_if(outcome.taken, [](std::int64_t step) { return step > 18; }), 2);
    EXPECT_EQ(steps_in(file), outcome.taken);
    expect_equal_columns(file);
    expect_values(file, outcome.taken);
  });
}

TEST(MetricsFullDisk, keeps_the_rows_before_where_there_never_is) {
  at_every_change(Disk::kFull, kRows, /*heals=*/false, [](const hdf5::File& file, const Outcome& outcome) {
    EXPECT_TRUE(outcome.was_closed);
    EXPECT_EQ(steps_in(file), outcome.taken);
    expect_equal_columns(file);
    expect_values(file, outcome.taken);
  });
}

/// Where a block has holes, a row may find no room in the midst of it, and the column stays one longer.
TEST(MetricsFullDisk, takes_every_row_of_blocks_with_holes_once_there_is_room_again) {
  at_every_change(Disk::kFull, kManyRows, /*heals=*/true, [](const hdf5::File& file, const Outcome& outcome) {
    EXPECT_TRUE(outcome.was_closed);
    EXPECT_EQ(steps_in(file), outcome.taken);
    expect_equal_columns(file);
    expect_values(file, outcome.taken);
  });
}

TEST(MetricsFullDisk, fills_no_holes_where_there_is_no_room) {
  at_every_change(Disk::kFull, kManyRows, /*heals=*/false,
                  [](const hdf5::File& file, const Outcome& outcome) {
                    EXPECT_EQ(steps_in(file), outcome.taken);
                    expect_values(file, outcome.taken);
                    EXPECT_LT(pages.size() * kPageBytes, 16 * kMiB);
                  });
}

/// As after a kill, the last row may be one that was not finished.
TEST(MetricsFullDisk, keeps_the_rows_before_a_disk_that_fails) {
  at_every_change(Disk::kFailing, kRows, /*heals=*/false, [](const hdf5::File& file, const Outcome& outcome) {
    EXPECT_GE(steps_in(file).size(), outcome.taken.size());
    EXPECT_LE(steps_in(file).size(), outcome.taken.size() + 1);
    expect_values(file, outcome.taken);
  });
}

}  // namespace
}  // namespace sluice
