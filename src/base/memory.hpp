// Memory as the kernel tells it: this process's anonymous, file-backed and shared pages, and what the machine
// has left.
#pragma once

#include <cstdint>
#include <filesystem>

namespace sluice {

/// One look at /proc. All in bytes.
struct MemorySample {
  std::int64_t anonymous_bytes = 0;  ///< resident anonymous bytes (RssAnon)
  std::int64_t file_bytes = 0;       ///< resident bytes of files (RssFile)
  /// Pss_Shmem: shared memory, each page divided by the number of processes that map it.
  std::int64_t shared_bytes = 0;
  std::int64_t machine_free_bytes = 0;  ///< MemFree of the machine: page cache counts as used
  /// Looks again at all but the shared part, in microseconds.
  void update_private();
  [[nodiscard]] std::int64_t growth_over(const MemorySample& baseline) const {
    return anonymous_bytes + shared_bytes - baseline.anonymous_bytes - baseline.shared_bytes;
  }
  /// Bytes that everything on the machine took since `baseline`, page cache and the memory of an integrated
  /// GPU included.
  [[nodiscard]] std::int64_t pool_growth_over(const MemorySample& baseline) const {
    return baseline.machine_free_bytes - machine_free_bytes;
  }
};

/// Reads /proc/self/status and, for the shared part, /proc/self/smaps_rollup, for which the kernel walks all
/// page tables: milliseconds for GiBs.
[[nodiscard]] MemorySample sample_memory();

/// Highest resident set of this process since it began (VmHWM), in bytes.
[[nodiscard]] std::int64_t peak_resident_bytes();

/// Kind of memory that counts as available.
enum class MemoryPool {
  kReclaimable,  ///< MemAvailable: reclaimable page cache counts as available
  kUnified,      ///< MemFree: CPU and GPU share one memory, and the GPU's allocations reclaim no page cache
};

/// Memory that the machine has left, lowered to what the process's cgroups (of version 1 or 2) and those
/// above them allow, in bytes.
[[nodiscard]] std::int64_t available_memory_bytes(MemoryPool pool = MemoryPool::kReclaimable);

/// Bytes that the limits of a cgroup's directory and of those above it, up to `root`, leave; the largest
/// number if there is no limit. A group's page cache counts as left where it is reclaimable.
[[nodiscard]] std::int64_t cgroup_available_bytes(const std::filesystem::path& group,
                                                  const std::filesystem::path& root, MemoryPool pool);

/// cgroup_available_bytes() over all cgroups that may limit the memory of the process whose /proc/PID/cgroup
/// is `list`; `mount` is where the system mounts cgroups.
[[nodiscard]] std::int64_t cgroup_available_bytes_of(const std::filesystem::path& list,
                                                     const std::filesystem::path& mount, MemoryPool pool);

/// Gives the system back what the heap holds but nobody uses, such as after parsing a large text.
void give_back_free_heap();

/// Makes the heap keep freed blocks below 32 MiB until give_back_free_heap(). Otherwise the C library returns
/// most of them to the system, which clears each page anew: 3.5 thousand per rank and step of a small model.
void keep_freed_memory();

/// While it lives, private writable memory (RLIMIT_DATA) is limited to what was mapped when it was made plus
/// `extra_bytes`; an allocation beyond that fails. Error(kInternal) if the kernel refuses.
class DataGrowthLimit {
 public:
  explicit DataGrowthLimit(std::int64_t extra_bytes);
  ~DataGrowthLimit();
  DataGrowthLimit(const DataGrowthLimit&) = delete;
  DataGrowthLimit& operator=(const DataGrowthLimit&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace sluice
