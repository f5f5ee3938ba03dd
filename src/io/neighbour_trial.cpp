#include "io/neighbour_trial.hpp"

#include "base/clock.hpp"
#include "base/memory/neighbour_memory.hpp"
#include "io/child_process.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>

namespace sluice {
namespace {

/// Seconds that the process which reads may take.
constexpr double kReadSeconds = 10;

/// The number that is read; only the process that is read has it.
constexpr std::int64_t kNumber = 0x736c75696365;
std::int64_t number_here = 0;

/// A process that does `work`; -1 if the system gives none.
pid_t start_process(const std::function<int()>& work) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::_exit(work());
}

/// Work of the process that is read, until it is killed.
int be_read(const Pipe& ready) {
#ifdef PR_SET_PTRACER
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  number_here = kNumber;
  const char byte = 0;
  if (::write(ready.writing.get(), &byte, 1) == 1) ::pause();
  return 1;
}

}  // namespace

bool can_read_neighbours() {
  Pipe ready = make_pipe();
  const pid_t read = start_process([&] { return be_read(ready); });
  if (read < 0) return true;
  const ChildProcess is_read(read);
  ready.writing = FileDescriptor(-1);
  char byte = 0;
  if (::read(ready.reading.get(), &byte, 1) != 1) return true;
  const pid_t reads = start_process([&] { return can_read_number(read, &number_here, kNumber) ? 0 : 1; });
  if (reads < 0) return true;
  const std::optional<int> status = ChildProcess(reads).wait_until(Deadline(kReadSeconds));
  return status && exit_status(*status) == 0;
}

}  // namespace sluice
