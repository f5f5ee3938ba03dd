#include "job/prepare/process_limits.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace sluice {
namespace {

// Bytes measured with Debian 12's LibTorch, OpenBLAS and Open MPI, plus a tenth: VmData of a rank on one
// thread before it has a model, the addition of each further thread (OpenBLAS's buffer, stack, heap), and
// VmSize beside VmData (code).
constexpr std::int64_t kLibraryData = 450 * kMiB, kThreadData = 160 * kMiB, kLibraryCode = 570 * kMiB;

std::int64_t bytes_of(rlim_t limit) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return limit == RLIM_INFINITY || limit > static_cast<rlim_t>(kMost) ? kMost
                                                                      : static_cast<std::int64_t>(limit);
}

void require(std::int64_t limit, std::int64_t needed, const char* what, const char* option, int threads) {
  if (limit >= needed) return;
  fail(ExitCode::kTooLittle,
       "this process may have {} of {} ({}), and the libraries that compute take {} with {} thread{} before "
       "any weight is loaded: {} too little. Raise the limit, or lower parallel.threads",
       format_bytes(limit), what, option, format_bytes(needed), threads, threads == 1 ? "" : "s",
       format_bytes(needed - limit));
}

}  // namespace

void require_descriptors() {
  constexpr rlim_t kLeast = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kLeast)
    fail(ExitCode::kTooLittle,
         "this process may open {} files at a time (ulimit -n), and MPI and the job need at least {}. Raise "
         "the limit",
         limit.rlim_max, kLeast);
}

ProcessLimits process_limits() {
  rlimit address_space{}, data{};
  getrlimit(RLIMIT_AS, &address_space);
  getrlimit(RLIMIT_DATA, &data);
  return {bytes_of(address_space.rlim_cur), bytes_of(data.rlim_cur)};
}

void require_room_for_libraries(const ProcessLimits& limits, int threads) {
  const std::int64_t data = kLibraryData + (threads - 1) * kThreadData;
  require(limits.data_bytes, data, "data", "ulimit -d, prlimit --data", threads);
  require(limits.address_space_bytes, data + kLibraryCode, "address space", "ulimit -v, prlimit --as",
          threads);
}

std::int64_t left_of_limits(const ProcessLimits& limits) {
  // Fields in pages: all, resident, shared, code, 0, and data with stack.
  std::int64_t all = 0, resident = 0, shared = 0, code = 0, none = 0, data = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared >> code >> none >> data;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto left = [page](std::int64_t limit, std::int64_t pages) {
    return limit == std::numeric_limits<std::int64_t>::max()
               ? limit
               : std::max<std::int64_t>(0, limit - pages * page);
  };
  return std::min(left(limits.address_space_bytes, all), left(limits.data_bytes, data));
}

}  // namespace sluice
