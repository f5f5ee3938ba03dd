#include "job/slurm/child_program.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/child_process.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMostOutput = 64 * kKiB;

/// Reads until the output ends; false if the deadline comes first.
bool read_all(int pipe, const Deadline& deadline, std::string& output) {
  for (;;) {
    pollfd waited{pipe, POLLIN, 0};
    const int ready = ::poll(&waited, 1, std::max(0, static_cast<int>(deadline.seconds_left() * 1000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 4096> part{};
    const ssize_t count = ::read(pipe, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    output.append(part.data(), std::min(static_cast<std::size_t>(count), kMostOutput - output.size()));
  }
}

}  // namespace

std::optional<ProgramResult> run_program(std::vector<std::string> words, double limit_seconds) try {
  const Deadline deadline(limit_seconds);
  auto [reading, writing] = make_pipe();
  ChildProcess program(std::move(words), {.output = writing.get(), .error = writing.get()});
  writing = FileDescriptor(-1);
  ProgramResult result;
  if (!read_all(reading.get(), deadline, result.output)) return std::nullopt;
  const std::optional<int> status = program.wait_until(deadline);
  if (!status) return std::nullopt;
  result.status = exit_status(*status);
  return result;
} catch (const Error&) {  // the program could not be started, or there was no pipe
  return std::nullopt;
}

}  // namespace sluice
