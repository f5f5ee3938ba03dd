#include "base/memory/memory.hpp"

#include "base/bytes.hpp"
#include "support/sanitizer.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// What a sanitizer adds to each mapped byte, at most: AddressSanitizer shadows 8 bytes with one.
#ifdef SLUICE_ADDRESS_SANITIZER
constexpr double kShadowShare = 1.0 / 8;
#else
constexpr double kShadowShare = 0;
#endif

/// Between the mapped bytes and those with their shadow, within 4 MiB for what else happens in a process.
void expect_growth(std::int64_t growth, std::int64_t mapped) {
  const auto bytes = static_cast<double>(mapped);
  EXPECT_GE(static_cast<double>(growth), bytes - 4.0 * kMiB);
  EXPECT_LE(static_cast<double>(growth), bytes * (1 + kShadowShare) + 4.0 * kMiB);
}

/// A mapping with every page touched, gone at the end of its scope.
class Pages {
 public:
  Pages(std::int64_t bytes, int sharing)
      : size_(static_cast<std::size_t>(bytes)),
        data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0)) {
    if (mapped()) touch();
  }
  ~Pages() {
    if (mapped()) munmap(data_, size_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] bool mapped() const { return data_ != MAP_FAILED; }

 private:
  /// One byte of each page; a page of the kernel's choice at most, where it would take 2 MiB for one of 4
  /// KiB.
  void touch() {
    madvise(data_, size_, MADV_NOHUGEPAGE);
    auto* const bytes = static_cast<volatile char*>(data_);
    for (std::size_t at = 0; at < size_; at += 4096) bytes[at] = 1;
  }
  std::size_t size_;
  void* data_;
};

TEST(Memory, sample_sees_private_pages) {
  static_cast<void>(sample_memory());  // what reading /proc takes for itself is taken
  const MemorySample before = sample_memory();
  EXPECT_GT(before.anonymous_bytes, 0);
  const Pages pages(64 * kMiB, MAP_PRIVATE);
  ASSERT_TRUE(pages.mapped());
  expect_growth(sample_memory().growth_over(before), 64 * kMiB);
}

TEST(Memory, sample_sees_shared_pages) {
  const MemorySample before = sample_memory();
  const Pages pages(64 * kMiB, MAP_SHARED);
  ASSERT_TRUE(pages.mapped());
  const MemorySample after = sample_memory();
  EXPECT_NEAR(static_cast<double>(after.shared_bytes - before.shared_bytes), 64.0 * kMiB, 4.0 * kMiB);
  expect_growth(after.growth_over(before), 64 * kMiB);
}

TEST(Memory, sample_forgets_pages_that_went_back) {
  const MemorySample before = sample_memory();
  { const Pages pages(64 * kMiB, MAP_PRIVATE); }
  EXPECT_LT(sample_memory().growth_over(before), 4 * kMiB);
}

TEST(Memory, peak_stays_when_pages_go) {
  { const Pages pages(64 * kMiB, MAP_PRIVATE); }
  EXPECT_GT(peak_resident_bytes(), 64 * kMiB);
}

TEST(Memory, machine_has_some_left) { EXPECT_GT(available_memory_bytes(), kMiB); }

/// A directory as the kernel shows a cgroup, with 30 MiB less in use than its limit, most of it page cache.
void make_cgroup(const std::filesystem::path& group, const std::string& limit, std::int64_t limit_bytes) {
  std::filesystem::create_directories(group);
  std::ofstream(group / "memory.max") << limit << '\n';
  std::ofstream(group / "memory.current") << limit_bytes - 30 * kMiB << '\n';
  std::ofstream(group / "memory.stat") << "anon 1000\ninactive_file " << 100 * kMiB << "\nactive_file "
                                       << 20 * kMiB << "\nfile " << 130 * kMiB << '\n';
}

TEST(Memory, of_a_cgroup_page_cache_is_left_unless_a_gpu_needs_it) {
  const test::TemporaryDirectory root;
  make_cgroup(root.path(), std::to_string(kGiB), kGiB);
  EXPECT_EQ(cgroup_available_bytes(root.path(), root.path(), MemoryPool::kReclaimable), 150 * kMiB);
  EXPECT_EQ(cgroup_available_bytes(root.path(), root.path(), MemoryPool::kUnified), 30 * kMiB);
}

TEST(Memory, limits_of_all_cgroups_above_count) {
  const test::TemporaryDirectory root;
  const auto left = [&](const char* group) {
    return cgroup_available_bytes(root.path() / group, root.path(), MemoryPool::kUnified);
  };
  EXPECT_EQ(left("job/step/task"), std::numeric_limits<std::int64_t>::max()) << "no cgroups at all";
  make_cgroup(root.path() / "job/step/task", "max", 8 * kGiB);
  EXPECT_EQ(left("job/step/task"), std::numeric_limits<std::int64_t>::max());
  make_cgroup(root.path() / "job", std::to_string(kGiB), kGiB);
  EXPECT_EQ(left("job/step/task"), 30 * kMiB);
  EXPECT_EQ(left("other"), std::numeric_limits<std::int64_t>::max());
}

TEST(Memory, cgroups_of_version_1_count_as_well) {
  const test::TemporaryDirectory root;
  const std::filesystem::path group = root.path() / "memory/slurm/job_7";
  std::filesystem::create_directories(group);
  std::ofstream(root.path() / "list") << "9:cpu,cpuacct:/slurm\n7:memory:/slurm/job_7\n0::/\n";
  const auto left = [&](MemoryPool pool) {
    return cgroup_available_bytes_of(root.path() / "list", root.path(), pool);
  };
  std::ofstream(group / "memory.limit_in_bytes") << "9223372036854771712\n";
  EXPECT_EQ(left(MemoryPool::kUnified), std::numeric_limits<std::int64_t>::max())
      << "what says that there is none";
  std::ofstream(group / "memory.limit_in_bytes") << kGiB << '\n';
  std::ofstream(group / "memory.usage_in_bytes") << kGiB - 30 * kMiB << '\n';
  std::ofstream(group / "memory.stat") << "cache 7\ninactive_file " << 20 * kMiB << '\n';
  EXPECT_EQ(left(MemoryPool::kUnified), 30 * kMiB);
  EXPECT_EQ(left(MemoryPool::kReclaimable), 50 * kMiB);
}

TEST(Memory, page_cache_counts_as_used_on_unified_memory) {
  const std::int64_t free = available_memory_bytes(MemoryPool::kUnified);
  EXPECT_GT(free, 0);
  EXPECT_LE(free, sample_memory().machine_free_bytes + 512 * kMiB);
}

TEST(Memory, the_pool_shrinks_by_what_is_taken) {
  // What was on a core's own list of free pages, up to an eighth of the memory, counted as used before: it is
  // kept, and the next pages are others.
  std::vector<std::unique_ptr<Pages>> taken;
  std::int64_t growth = 0;
  while (growth <= 256 * kMiB && taken.size() < 8) {
    const MemorySample before = sample_memory();
    taken.push_back(std::make_unique<Pages>(512 * kMiB, MAP_PRIVATE));
    ASSERT_TRUE(taken.back()->mapped());
    growth = sample_memory().pool_growth_over(before);
  }
  EXPECT_GT(growth, 256 * kMiB) << "other processes may give memory back";
}

#ifndef SLUICE_ADDRESS_SANITIZER  // whose heap keeps what was freed, to find uses of it
TEST(Memory, what_the_heap_keeps_between_blocks_in_use_goes_back) {
  const MemorySample before = sample_memory();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 64 * 1024; ++i) blocks.push_back(std::make_unique<char[]>(1024));
  const std::unique_ptr<char[]> above = std::move(blocks.back());
  blocks.clear();
  blocks.shrink_to_fit();
  give_back_free_heap();
  EXPECT_LT(sample_memory().growth_over(before), 8 * kMiB);
}
#endif

/// Exit status of a process that limits its growth to 32 MiB and then maps `bytes`: 0 if it got them.
[[noreturn]] void map_under_limit(std::int64_t bytes) {
  const DataGrowthLimit limit(32 * kMiB);
  std::_Exit(Pages(bytes, MAP_PRIVATE).mapped() ? 0 : 1);
}

TEST(MemoryLimitDeathTest, lets_small_growth_pass) {
  EXPECT_EXIT(map_under_limit(16 * kMiB), testing::ExitedWithCode(0), "");
}

TEST(MemoryLimitDeathTest, stops_large_growth) {
  EXPECT_EXIT(map_under_limit(48 * kMiB), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace sluice
