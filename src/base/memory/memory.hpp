// Memory as the kernel reports it: this process's anonymous, file-backed and shared pages, and the memory
// that the machine has left.
#pragma once

#include <cstdint>
#include <filesystem>

namespace sluice {

/// Sample of memory from /proc, in bytes.
struct MemorySample {
  std::int64_t anonymous_bytes = 0;  ///< resident anonymous bytes (RssAnon)
  std::int64_t file_bytes = 0;       ///< resident bytes of files (RssFile)
  /// Resident shared memory (Pss_Shmem): each page divided by the number of processes that map it.
  std::int64_t shared_bytes = 0;
  std::int64_t machine_free_bytes = 0;  ///< free bytes of the machine (MemFree): page cache counts as used
  /// Samples again all but shared memory, in microseconds.
  void update_private();
  [[nodiscard]] std::int64_t growth_over(const MemorySample& baseline) const {
    return anonymous_bytes + shared_bytes - baseline.anonymous_bytes - baseline.shared_bytes;
  }
  /// Bytes that all processes on the machine took since `baseline`, page cache and the memory of an
  /// integrated GPU included.
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
  kReclaimable,  ///< MemAvailable, in which reclaimable page cache counts as available
  /// MemFree, for machines where CPU and GPU share memory, and the GPU's allocations reclaim no page cache.
  kUnified,
};

/// Bytes that the machine has left, or fewer if the process's cgroups (of version 1 or 2), or those above
/// them, allow fewer.
[[nodiscard]] std::int64_t available_memory_bytes(MemoryPool pool = MemoryPool::kReclaimable);

/// Bytes that the limits of a cgroup's directory and of those above it, up to `root`, leave; the largest
/// number if there is no limit. A group's page cache counts as left where it is reclaimable.
[[nodiscard]] std::int64_t cgroup_available_bytes(const std::filesystem::path& group,
                                                  const std::filesystem::path& root, MemoryPool pool);

/// The same over all cgroups that may limit the memory of the process whose /proc/PID/cgroup is `list`, in
/// bytes; `mount` is where the system mounts cgroups.
[[nodiscard]] std::int64_t cgroup_available_bytes_of(const std::filesystem::path& list,
                                                     const std::filesystem::path& mount, MemoryPool pool);

/// Returns unused memory of the heap to the system, such as after parsing a large text.
void give_back_free_heap();

/// Makes the heap keep freed blocks below 32 MiB until give_back_free_heap(). Otherwise the C library returns
/// most of them to the system, which clears each page again: 3.5 thousand pages per rank and step of a small
/// model.
void keep_freed_memory();

/// Limits private writable memory (RLIMIT_DATA) for the lifetime of the object to what was mapped before plus
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
