#include "corpus/helper_process.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

extern char** environ;

namespace sluice::corpus {
namespace {

constexpr std::size_t kLongestAnswer = std::size_t{1} << 30;

/// Both ends; a started program has no other ends of other helpers, which it would keep alive.
std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(ExitCode::kTooLittle, "no connection to a helper program: {}", errno_text(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  void connect(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void open_nothing(int to) { ::posix_spawn_file_actions_addopen(&actions_, to, "/dev/null", O_WRONLY, 0); }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Whether the socket can be read (or written) before the deadline.
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
  SpawnActions actions;
  actions.connect(theirs.get(), STDIN_FILENO);
  actions.connect(theirs.get(), STDOUT_FILENO);
  actions.open_nothing(STDERR_FILENO);
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error = ::posix_spawnp(&process_, pointers[0], actions.get(), nullptr, pointers.data(), environ);
  if (error != 0) {
    process_ = -1;
    fail(ExitCode::kTooLittle, "{} cannot be started: {}", words[0], errno_text(error));
  }
  socket_ = std::move(own);
}

HelperProcess::~HelperProcess() { end(); }

void HelperProcess::end() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

std::optional<std::string> HelperProcess::ask(std::string_view line, double deadline_seconds,
                                              std::string_view what) {
  if (process_ < 0) return std::nullopt;
  const Deadline deadline(deadline_seconds);
  const auto give_up = [&] {
    end();
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
