// Of ranks that fail together, one explains.
#pragma once

#include <mpi.h>

namespace sluice {

/// Lets the lowest of the ranks that fail together speak: each waits its turn, and whoever hears meanwhile
/// that a lower one has spoken stays silent. Works while the ranks that did not fail are anywhere.
class LastWord {
 public:
  /// Collective over all processes of the job.
  LastWord();
  ~LastWord() = default;  // the communicator is left to MPI's end: freeing is collective
  LastWord(const LastWord&) = delete;
  LastWord& operator=(const LastWord&) = delete;

  /// True if this rank is to explain; the others have been told so. Takes up to four seconds. MPI's errors
  /// count as silence.
  [[nodiscard]] bool take() const noexcept;

 private:
  [[nodiscard]] bool hears_another(double seconds) const noexcept;
  void tell_others() const noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace sluice
