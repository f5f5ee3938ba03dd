#include "comm/mpi/failure_reporter_election.hpp"

#include "base/clock.hpp"
#include "comm/mpi/check.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace sluice {
namespace {

/// Largest delay in seconds between failures of two ranks with the same cause.
constexpr double kDelaySeconds = 1;
constexpr int kMaxDelays = 4;
/// Time in seconds that rank 0 on another machine may take for its report and abort, which ends this rank
/// without notice.
constexpr double kOtherMachineSeconds = 2;
/// Time in seconds that writing down a failure may take on a busy disk before the job ends without it.
constexpr double kRecordSeconds = 8;
constexpr auto kPause = std::chrono::milliseconds(5);

using Name = std::array<char, 64>;

/// A name that no other job on the machine has; empty if no shared memory of that name can be made.
Name make_shared_memory() {
  Name name{};
  const auto ticks = std::chrono::system_clock::now().time_since_epoch().count();
  fmt::format_to_n(name.data(), name.size() - 1, "/sluice-{}-{}", getpid(), ticks);
  const int descriptor = shm_open(name.data(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor < 0) return {};
  const bool sized = ftruncate(descriptor, sizeof(NodeFlags)) == 0;
  close(descriptor);
  if (sized) return name;
  shm_unlink(name.data());
  return {};
}

/// Opens the flags; null if that fails. New memory is zero, as flags are at first.
NodeFlags* open_flags(const Name& name) {
  const int descriptor = shm_open(name.data(), O_RDWR, 0);
  if (descriptor < 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(NodeFlags), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return memory == MAP_FAILED ? nullptr : static_cast<NodeFlags*>(memory);
}

}  // namespace

FailureReporterElection::FailureReporterElection(MPI_Comm node, int rank) : rank_(rank) {
  int place = 0;
  check_mpi(MPI_Comm_rank(node, &place), "MPI_Comm_rank");
  int lowest = rank;
  check_mpi(MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  is_with_first_ = lowest == 0;
  Name name = place == 0 ? make_shared_memory() : Name{};
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, node), "MPI_Bcast");
  if (name.front() == '\0') return;
  flags_ = open_flags(name);
  check_mpi(MPI_Barrier(node), "MPI_Barrier");
  if (place == 0) shm_unlink(name.data());
}

FailureReporterElection::~FailureReporterElection() {
  if (flags_ != nullptr) munmap(static_cast<void*>(flags_), sizeof(NodeFlags));
}

bool FailureReporterElection::take() const noexcept {
  const Stopwatch waited;
  const double delay =
      kDelaySeconds * std::min(rank_, kMaxDelays) + (is_with_first_ ? 0 : kOtherMachineSeconds);
  while (waited.seconds() < delay) {
    if (flags_ != nullptr && flags_->reported != 0) return false;
    std::this_thread::sleep_for(kPause);
  }
  if (flags_ == nullptr) return true;
  if (flags_->reported.exchange(1) != 0) return false;
  await_record();
  return true;
}

void FailureReporterElection::await_record() const noexcept {
  const Stopwatch waited;
  while (flags_->recorded != 0 && flags_->written == 0 && waited.seconds() < kRecordSeconds)
    std::this_thread::sleep_for(kPause);
}

bool FailureReporterElection::record() const noexcept {
  return flags_ == nullptr || flags_->recorded.exchange(1) == 0;
}

void FailureReporterElection::has_recorded() const noexcept {
  if (flags_ != nullptr) flags_->written = 1;
}

}  // namespace sluice
