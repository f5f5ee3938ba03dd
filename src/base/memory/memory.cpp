#include "base/memory/memory.hpp"

#include "base/error.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Field = std::pair<std::string_view, std::int64_t*>;

/// Reads fields from lines "Name:   123 kB", converted to bytes.
void read_fields(const char* path, std::initializer_list<Field> fields) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    for (const auto& [name, value] : fields) {
      if (std::string_view(line).substr(0, colon) != name) continue;
      const std::size_t start = line.find_first_not_of(" \t", colon + 1);
      std::int64_t number = 0;
      if (start != std::string::npos) std::from_chars(line.data() + start, line.data() + line.size(), number);
      *value = number * 1024;
    }
  }
}

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Number in a cgroup's file; `otherwise`, for no limit, if the file has none ("max") or is missing.
std::int64_t cgroup_number(const fs::path& file, std::int64_t otherwise) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? number : otherwise;
}

/// Bytes of files in the page cache of a cgroup, from lines "name number".
std::int64_t cgroup_cache_bytes(const fs::path& group) {
  std::ifstream in(group / "memory.stat");
  std::int64_t bytes = 0, number = 0;
  for (std::string name; in >> name >> number;)
    if (name == "active_file" || name == "inactive_file") bytes += number;
  return bytes;
}

/// Bytes that one cgroup's limit leaves. Version 1 has other file names, and a huge number for no limit.
std::int64_t left_in_cgroup(const fs::path& group, MemoryPool pool) {
  constexpr std::int64_t kVersion1NoLimit = std::int64_t{1} << 62;
  const std::int64_t limit =
      cgroup_number(group / "memory.max", cgroup_number(group / "memory.limit_in_bytes", kNoLimit));
  if (limit >= kVersion1NoLimit) return kNoLimit;
  const std::int64_t cache = pool == MemoryPool::kReclaimable ? cgroup_cache_bytes(group) : 0;
  return limit - cgroup_number(group / "memory.current", cgroup_number(group / "memory.usage_in_bytes", 0)) +
         cache;
}

struct Cgroup {
  fs::path group;
  fs::path root;
};

/// The directories of the cgroups that may limit a process's memory, by its /proc/PID/cgroup: lines "0::/a/b"
/// of version 2, and "7:memory:/a/b" of version 1, whose controllers have a tree each. In a container that
/// shows only its own group, that is the root.
std::vector<Cgroup> cgroups_of(const fs::path& list, const fs::path& mount) {
  std::vector<Cgroup> groups{{mount, mount}};
  std::ifstream in(list);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers(1, ',');
    controllers.append(line, first + 1, second - first - 1).push_back(',');
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    if (controllers == ",,") groups.push_back({mount / path, mount});
    if (controllers.find(",memory,") != std::string::npos)
      groups.push_back({mount / "memory" / path, mount / "memory"});
  }
  return groups;
}

}  // namespace

std::int64_t cgroup_available_bytes_of(const fs::path& list, const fs::path& mount, MemoryPool pool) {
  std::int64_t available = kNoLimit;
  for (const Cgroup& own : cgroups_of(list, mount))
    available = std::min(available, cgroup_available_bytes(own.group, own.root, pool));
  return available;
}

MemorySample sample_memory() {
  MemorySample sample;
  sample.update_private();
  read_fields("/proc/self/smaps_rollup", {{"Pss_Shmem", &sample.shared_bytes}});
  return sample;
}

void MemorySample::update_private() {
  read_fields("/proc/self/status", {{"RssAnon", &anonymous_bytes}, {"RssFile", &file_bytes}});
  read_fields("/proc/meminfo", {{"MemFree", &machine_free_bytes}});
}

std::int64_t peak_resident_bytes() {
  std::int64_t peak = 0;
  read_fields("/proc/self/status", {{"VmHWM", &peak}});
  return peak;
}

std::int64_t available_memory_bytes(MemoryPool pool) {
  std::int64_t available = 0;
  read_fields("/proc/meminfo", {{pool == MemoryPool::kUnified ? "MemFree" : "MemAvailable", &available}});
  available = std::min(available, cgroup_available_bytes_of("/proc/self/cgroup", "/sys/fs/cgroup", pool));
  return std::max<std::int64_t>(available, 0);
}

std::int64_t cgroup_available_bytes(const fs::path& group, const fs::path& root, MemoryPool pool) {
  std::int64_t available = left_in_cgroup(root, pool);
  fs::path place = root;
  for (const fs::path& name : group.lexically_relative(root)) {
    place /= name;
    available = std::min(available, left_in_cgroup(place, pool));
  }
  return available;
}

void give_back_free_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestThreshold = 32 << 20;  // bytes of the largest threshold that the C library takes
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

DataGrowthLimit::DataGrowthLimit(std::int64_t extra_bytes) {
  std::int64_t data = 0;
  read_fields("/proc/self/status", {{"VmData", &data}});
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  before_ = limit.rlim_cur;
  limit.rlim_cur = std::min(static_cast<rlim_t>(data + extra_bytes), limit.rlim_max);
  if (setrlimit(RLIMIT_DATA, &limit) != 0)
    fail(ExitCode::kInternal, "cannot set RLIMIT_DATA to {} bytes: {}", limit.rlim_cur, errno_text(errno));
}

DataGrowthLimit::~DataGrowthLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = before_;
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace sluice
