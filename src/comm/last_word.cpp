#include "comm/last_word.hpp"

#include "base/clock.hpp"
#include "comm/mpi_check.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice {
namespace {

constexpr int kTag = 0;
/// What one rank's failure may lag behind another's of the same cause.
constexpr double kTurnSeconds = 1;
constexpr int kTurns = 4;
constexpr auto kPause = std::chrono::milliseconds(5);

}  // namespace

LastWord::LastWord() {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

bool LastWord::take() const noexcept {
  if (hears_another(kTurnSeconds * std::min(rank_, kTurns))) return false;
  tell_others();
  return true;
}

bool LastWord::hears_another(double seconds) const noexcept {
  const Stopwatch waited;
  do {
    int heard = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &heard, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard)
      return true;
    std::this_thread::sleep_for(kPause);
  } while (waited.seconds() < seconds);
  return false;
}

void LastWord::tell_others() const noexcept {
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    int sent = 0;
    // An empty message leaves at once or never; either way nobody waits for it.
    if (MPI_Isend(nullptr, 0, MPI_BYTE, to, kTag, comm_, &request) != MPI_SUCCESS) continue;
    if (MPI_Test(&request, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS && !sent) MPI_Request_free(&request);
  }
}

}  // namespace sluice
