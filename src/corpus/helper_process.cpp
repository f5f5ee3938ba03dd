#include "corpus/helper_process.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace sluice::corpus {
namespace {

constexpr std::size_t kLongestAnswer = std::size_t{1} << 30;

/// A pair of connected sockets that other child processes do not inherit, since they would keep a helper
/// alive.
std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(ExitCode::kTooLittle, "no connection to a helper program: {}", errno_text(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Waits until the socket can be read (or written); false at the deadline.
bool wait_for(int socket, short events, const Deadline& deadline) {
  while (!deadline.passed()) {
    pollfd waiting{socket, events, 0};
    const int milliseconds = static_cast<int>(std::clamp(deadline.seconds_left() * 1000, 1.0, 1000.0));
    if (::poll(&waiting, 1, milliseconds) > 0) return true;
  }
  return false;
}

}  // namespace

HelperProcess::HelperProcess(const std::vector<std::string>& words) : socket_(-1) {
  auto [own, theirs] = connected_sockets();
  program_.emplace(words, ChildStreams{.input = theirs.get(), .output = theirs.get()});
  socket_ = std::move(own);
}

std::optional<std::string> HelperProcess::ask(std::string_view line, double deadline_seconds,
                                              std::string_view what) {
  if (!program_) return std::nullopt;
  const Deadline deadline(deadline_seconds);
  const auto give_up = [&] {
    program_.reset();
    fail(ExitCode::kBadData, "{} took more than {} s", what, deadline_seconds);
  };
  std::string request(line);
  request += '\n';
  for (std::string_view left = request; !left.empty();) {
    if (!wait_for(socket_.get(), POLLOUT, deadline)) give_up();
    const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return std::nullopt;
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
  }
  std::string answer;
  std::vector<char> room(1 << 16);
  while (answer.empty() || answer.back() != '\n') {
    if (!wait_for(socket_.get(), POLLIN, deadline)) give_up();
    const ssize_t received = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (received <= 0 || answer.size() > kLongestAnswer) return std::nullopt;
    answer.append(room.data(), static_cast<std::size_t>(received));
  }
  answer.pop_back();
  return answer;
}

}  // namespace sluice::corpus
