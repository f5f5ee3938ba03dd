// TCP connections, for threads that exchange bytes with another machine beside those that speak MPI.
#pragma once

#include "io/file.hpp"

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace sluice {

/// Limit of every wait of a connection: Error(kIo) when nothing has moved for `seconds`, or soon after a stop
/// is asked for.
struct TcpLimit {
  double seconds = 600;
  std::stop_token stop{};
};

/// One end of a connection. Move-only; closes itself. Errors of all calls are Error(kIo) with the name of the
/// other end.
class TcpStream {
 public:
  /// `peer`: the other end's name for messages.
  TcpStream(FileDescriptor socket, std::string peer, TcpLimit limit);
  /// Connects to an IPv4 address such as "10.0.0.2" within the limit.
  [[nodiscard]] static TcpStream connect(const std::string& address, int port, TcpLimit limit);

  void set_limit(TcpLimit limit) { limit_ = std::move(limit); }
  void send(std::span<const std::byte> bytes);
  /// Fills `out`. Error(kIo) also if the other end closes first.
  void receive(std::span<std::byte> out);

 private:
  void wait_for(short events, const char* what) const;

  FileDescriptor socket_;
  std::string peer_;
  TcpLimit limit_;
};

/// Waits for connections on a free port of all interfaces. Move-only.
class TcpListener {
 public:
  /// Error(kIo) if the system refuses.
  TcpListener();
  [[nodiscard]] int port() const { return port_; }
  /// The next connection. It may be awaited for any time: Error(kIo) soon after a stop is asked for. The
  /// stream has `limit`.
  [[nodiscard]] TcpStream accept(const TcpLimit& limit) const;

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

/// IPv4 addresses of this machine's interfaces that are up, loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();

}  // namespace sluice
