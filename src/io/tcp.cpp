#include "io/tcp.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/ipv4.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

/// Milliseconds between two looks at whether a stop was asked for.
constexpr int kLookMilliseconds = 100;

FileDescriptor make_socket() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0)
    fail({ExitCode::kIo, "io.connection"}, "cannot create a TCP socket: {}", errno_text(errno));
  return socket;
}

sockaddr_in address_of(in_addr address, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<std::uint16_t>(port));
  out.sin_addr = address;
  return out;
}

void require_no_stop(const std::stop_token& stop, const std::string& peer) {
  if (stop.stop_requested())
    fail({ExitCode::kIo, "io.connection"}, "the connection with {} was given up", peer);
}

/// Waits for one of `events` or an error for the time between two looks; returns whether it came.
bool look(int socket, short events) {
  pollfd entry{socket, events, 0};
  return ::poll(&entry, 1, kLookMilliseconds) > 0;
}

}  // namespace

TcpStream::TcpStream(FileDescriptor socket, std::string peer, TcpLimit limit)
    : socket_(std::move(socket)), peer_(std::move(peer)), limit_(std::move(limit)) {}

TcpStream TcpStream::connect(const std::string& address, int port, TcpLimit limit) {
  const std::string peer = fmt::format("{} port {}", address, port);
  in_addr ipv4{};
  if (::inet_pton(AF_INET, address.c_str(), &ipv4) != 1)
    fail({ExitCode::kIo, "io.connection"}, "'{}' is not an IPv4 address", address);
  const sockaddr_in to = address_of(ipv4, port);
  TcpStream stream(make_socket(), peer, std::move(limit));
  const int socket = stream.socket_.get();
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return stream;
  if (errno != EINPROGRESS) fail({ExitCode::kIo, "io.connection"}, "{}: {}", peer, errno_text(errno));
  stream.wait_for(POLLOUT, "answered");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) fail({ExitCode::kIo, "io.connection"}, "{}: {}", peer, errno_text(error));
  return stream;
}

void TcpStream::wait_for(short events, const char* what) const {
  const Stopwatch watch;
  while (!look(socket_.get(), events)) {
    require_no_stop(limit_.stop, peer_);
    if (watch.seconds() > limit_.seconds)
      fail({ExitCode::kIo, "io.connection"}, "{} has {} nothing for {:.0f} s", peer_, what, watch.seconds());
  }
  require_no_stop(limit_.stop, peer_);
}

void TcpStream::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0)
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    else if (errno == EAGAIN || errno == EINTR)
      wait_for(POLLOUT, "taken");
    else
      fail({ExitCode::kIo, "io.connection"}, "{}: {}", peer_, errno_text(errno));
  }
}

void TcpStream::receive(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = ::recv(socket_.get(), out.data(), out.size(), 0);
    if (count > 0)
      out = out.subspan(static_cast<std::size_t>(count));
    else if (count == 0)
      fail({ExitCode::kIo, "io.connection"}, "{} closed the connection {} bytes too early", peer_,
           out.size());
    else if (errno == EAGAIN || errno == EINTR)
      wait_for(POLLIN, "sent");
    else
      fail({ExitCode::kIo, "io.connection"}, "{}: {}", peer_, errno_text(errno));
  }
}

TcpListener::TcpListener() : socket_(make_socket()) {
  sockaddr_in address = address_of(in_addr{INADDR_ANY}, 0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket_.get(), any, size) != 0 || ::listen(socket_.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.get(), any, &size) != 0)
    fail({ExitCode::kIo, "io.connection"}, "cannot open a TCP port to listen on: {}", errno_text(errno));
  port_ = ntohs(address.sin_port);
}

TcpStream TcpListener::accept(const TcpLimit& limit) const {
  const std::string peer = fmt::format("whoever connects to port {}", port_);
  for (;;) {
    require_no_stop(limit.stop, peer);
    if (!look(socket_.get(), POLLIN)) continue;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    auto* const any = reinterpret_cast<sockaddr*>(&from);
    FileDescriptor socket(::accept4(socket_.get(), any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() >= 0) return {std::move(socket), ipv4_text(from.sin_addr), limit};
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      fail({ExitCode::kIo, "io.connection"}, "port {}: {}", port_, errno_text(errno));
  }
}

std::vector<std::string> own_addresses() {
  const auto interfaces = ipv4_interfaces();
  if (!interfaces)
    fail({ExitCode::kIo, "io.connection"}, "cannot list the network interfaces: {}", errno_text(errno));
  std::vector<std::string> addresses, loopback;
  for (const Ipv4Interface& each : *interfaces)
    if (each.is_up) (each.is_loopback ? loopback : addresses).push_back(ipv4_text(each.address));
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

}  // namespace sluice
